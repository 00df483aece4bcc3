"""The client's verbs about existing containers: `engine ps`, `engine logs` and `engine rm`.

Runs in the client's one thread.
"""

import json
import sys
import time
from collections.abc import Sequence

from engine.client.api import Api, ApiError, container_path
from engine.client.display import age, columns, parse_time, short_id, shortened
from engine.client.frames import Demultiplexer, Plain
from engine.client.session import write_all
from engine.client.transport import Object
from engine.commandline import Given, Option, given_text, given_texts
from engine.errors import Invalid

_COMMAND_WIDTH = 20

PS_OPTIONS = (
    Option("all", "Show those that have ended too", short="a", kind="flag", default=False),
    Option("filter", "Show only those that match, such as status=exited; repeatable", short="f", kind="list"),
    Option("no-trunc", "Show ids and commands in full", kind="flag", default=False),
    Option("quiet", "Show only the ids", short="q", kind="flag", default=False),
)
LOGS_OPTIONS = (
    Option("details", "Show the labels and variables chosen for the log", kind="flag", default=False),
    Option("follow", "Go on with new output until the container ends", short="f", kind="flag", default=False),
    Option("since", "Show what is younger than a time, or than so long ago (10m)", value="time"),
    Option("tail", "Show only so many lines of the end", short="n", default="all", value="lines"),
    Option("timestamps", "Show the time of each line", short="t", kind="flag", default=False),
    Option("until", "Show what is older than a time, or than so long ago (10m)", value="time"),
)
RM_OPTIONS = (
    Option("force", "Kill it first if it runs", short="f", kind="flag", default=False),
    Option("volumes", "Remove its anonymous volumes too", short="v", kind="flag", default=False),
)


def ps_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine ps`: show a table of the containers, or their ids."""
    query = {"all": bool(given.get("all")), "filters": filters(given_texts(given, "filter"))}
    full = bool(given.get("no-trunc"))
    rows = [container_row(container, full, time.time()) for container in api.call("GET", "/containers/json", query)]
    if given.get("quiet"):
        for row in rows:
            print(row[0])
    else:
        print(columns(("CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES"), rows))
    return 0


def filters(texts: Sequence[str]) -> str | None:
    """`key=value` texts as the API's JSON, None for no texts. Raises Invalid."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise Invalid(f"invalid filter '{text}': give key=value")
        found.setdefault(key.strip().lower(), []).append(value.strip())
    return json.dumps(found) if found else None


def container_row(container: Object, full: bool, now: float) -> tuple[str, ...]:
    """One row of `ps` for one container of GET /containers/json."""
    command = container["Command"]
    return (
        container["Id"] if full else short_id(container["Id"]),
        container["Image"],
        f'"{command if full else shortened(command, _COMMAND_WIDTH)}"',
        f"{age(now - container['Created'])} ago",
        container["Status"],
        ", ".join(map(port, container.get("Ports") or ())),
        ", ".join(name.lstrip("/") for name in container["Names"]),
    )


def port(value: Object) -> str:
    """One port of a container: `0.0.0.0:8080->80/tcp`, or `80/tcp` where it is not published."""
    inner = f"{value['PrivatePort']}/{value['Type']}"
    return f"{value.get('IP', '')}:{value['PublicPort']}->{inner}" if value.get("PublicPort") else inner


def logs_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine logs CONTAINER`: write its stdout to our stdout, and its stderr to our stderr."""
    (container,) = others
    now = time.time()
    query = {
        "stdout": True,
        "stderr": True,
        "tail": given.get("tail", "all"),
        **{name: bool(given.get(name)) for name in ("details", "follow", "timestamps")},
        **{name: parse_time(given_text(given, name), now) for name in ("since", "until") if name in given},
    }
    tty = api.call("GET", container_path(container, "json"))["Config"]["Tty"]
    frames: Plain | Demultiplexer = Plain() if tty else Demultiplexer()
    with api.open("GET", container_path(container, "logs"), query) as response:
        for data in response.pieces():
            for stream, piece in frames.feed(data):
                write_all(2 if stream == 2 else 1, piece)
    return 0


def rm_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine rm CONTAINER...`: remove each; a container that cannot be removed makes the exit status 1."""
    status = 0
    query = {"force": bool(given.get("force")), "v": bool(given.get("volumes"))}
    for container in others:
        try:
            api.call("DELETE", container_path(container), query)
            print(container)
        except ApiError as error:
            print(f"engine: {error}", file=sys.stderr)
            status = 1
    return status
