"""The verbs `engine top` and `engine port`: what runs in a container, and which of its ports are published.

Runs in the client's one thread.
"""

import sys
from collections.abc import Sequence

from engine.client.api import Api, container_path
from engine.client.container.portlist import place
from engine.client.display import columns
from engine.client.transport import Object
from engine.commandline import Given

_WIDTH = 20  # of a column of docker's `top`


def top_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine top CONTAINER [ps OPTIONS]`. Raises ApiError."""
    container, *arguments = others
    found = api.call("GET", container_path(container, "top"), {"ps_args": " ".join(arguments) or None})
    print(columns(found["Titles"], found["Processes"], _WIDTH))
    return 0


def port_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine port CONTAINER [PRIVATE_PORT[/PROTO]]`. Raises Invalid, ApiError."""
    container, *wanted = others
    ports: Object = api.call("GET", container_path(container, "json"))["NetworkSettings"]["Ports"] or {}
    if not wanted:
        for port in sorted(ports, key=_order):
            for binding in ports[port] or ():
                print(f"{port} -> {place(binding['HostIp'], binding['HostPort'])}")
        return 0
    number, _, kind = wanted[0].partition("/")
    bindings = ports.get(f"{number}/{kind or 'tcp'}")
    if not bindings:
        print(f"Error: No public port '{wanted[0]}' published for {container}", file=sys.stderr)
        return 1
    for binding in bindings:
        print(place(binding["HostIp"], binding["HostPort"]))
    return 0


def _order(port: str) -> tuple[int, str]:
    number, _, kind = port.partition("/")
    return (int(number) if number.isdecimal() else 0), kind


FUNCTIONS = {"top": (top_verb, ()), "port": (port_verb, ())}
