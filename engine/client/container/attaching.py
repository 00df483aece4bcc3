"""The verbs `engine attach` and `engine start`: be at a container that exists.

Runs in the client's one thread.
"""

import sys
from collections.abc import Sequence

from engine.client.api import Api, container_path
from engine.client.container.attached import Manner, run_attached
from engine.client.container.each import for_each
from engine.client.terminal import DETACH_KEYS, detach_keys, need_terminal
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid

_KEYS = Option("detach-keys", "Override the key sequence for detaching a container")
ATTACH_OPTIONS = (
    _KEYS,
    Option("no-stdin", "Do not attach STDIN", kind="flag", default=False),
    Option("sig-proxy", "Proxy all received signals to the process", kind="flag", default=True),
)
START_OPTIONS = (
    Option("attach", "Attach STDOUT/STDERR and forward signals", short="a", kind="flag", default=False),
    _KEYS,
    Option("interactive", "Attach container's STDIN", short="i", kind="flag", default=False),
)


def attach_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine attach CONTAINER`: returns its exit code, 0 when the user has detached. Raises Invalid, ApiError."""
    (container,) = others
    found = api.call("GET", container_path(container, "json"))
    state, config = found["State"], found["Config"]
    if not state["Running"]:
        raise Invalid("You cannot attach to a stopped container, start it first")
    if state["Paused"]:
        raise Invalid("You cannot attach to a paused container, unpause it first")
    if state["Restarting"]:
        raise Invalid("You cannot attach to a restarting container, wait until it is running")
    stdin = config["OpenStdin"] and not given.get("no-stdin")
    if stdin and config["Tty"]:
        need_terminal(0)
    proxy = given.get("sig-proxy", True) is True and not config["Tty"]
    manner = Manner(config["Tty"], stdin, _keys(given), proxy, "not-running")
    return run_attached(api, found["Id"], manner, None)


def start_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine start CONTAINER...`: print the names; with -a or -i returns the container's exit code. Raises Invalid."""
    if not given.get("attach") and not given.get("interactive"):
        return for_each(
            others, lambda name: api.call("POST", container_path(name, "start")), "failed to start containers"
        )
    if len(others) > 1:
        raise Invalid("you cannot start and attach multiple containers at once")
    found = api.call("GET", container_path(others[0], "json"))
    config = found["Config"]
    stdin = config["OpenStdin"] and bool(given.get("interactive"))
    if stdin and config["Tty"]:
        need_terminal(0)
    removed = found["HostConfig"]["AutoRemove"]
    manner = Manner(config["Tty"], stdin, _keys(given), True, "removed" if removed else "next-exit")
    sys.stdout.flush()
    return run_attached(api, found["Id"], manner, lambda: api.call("POST", container_path(found["Id"], "start")))


def _keys(given: Given) -> bytes:
    return detach_keys(given_text(given, "detach-keys")) if "detach-keys" in given else DETACH_KEYS


FUNCTIONS = {"attach": (attach_verb, ATTACH_OPTIONS), "start": (start_verb, START_OPTIONS)}
