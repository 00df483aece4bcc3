"""The verbs that make one call for each container that they are given: stop, restart, kill, pause, wait, rm, rename.

Runs in the client's one thread. One container that is refused does not keep the others from their turn, and makes the
exit status 1.
"""

import sys
from collections.abc import Callable, Iterable, Sequence

from engine.client.api import Api, ApiError, container_path
from engine.client.valuechecks import number
from engine.commandline import Given, Option, given_text
from engine.literals import integer

_SIGNAL = Option("signal", "Signal to send to the container", short="s")
STOP_OPTIONS = (
    _SIGNAL,
    Option("timeout", "Seconds to wait before killing the container", short="t", value="int", check=number),
    Option("time", "The same as --timeout, by its former name", value="int", check=number),
)
KILL_OPTIONS = (_SIGNAL,)
RM_OPTIONS = (
    Option("force", "Force the removal of a running container (uses SIGKILL)", short="f", kind="flag", default=False),
    Option("link", "Remove the specified link", short="l", kind="flag", default=False),
    Option("volumes", "Remove anonymous volumes associated with the container", short="v", kind="flag", default=False),
)
_NOT_FOUND = 404


def for_each(
    names: Iterable[str], call: Callable[[str], object], summary: str = "", absent_is_fine: bool = False
) -> int:
    """Make a call for each name, and print the name, or what the daemon says against it; returns the exit status.

    summary: what is said at the end of those that failed, if anything is
    absent_is_fine: a thing that does not exist is told, and is no failure
    """
    failed = []
    for name in names:
        try:
            call(name)
            print(name)
        except ApiError as error:
            print(f"Error response from daemon: {error}", file=sys.stderr)
            if not absent_is_fine or error.status != _NOT_FOUND:
                failed.append(name)
    if failed and summary:
        print(f"Error: {summary}: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _ending(verb: str) -> Callable[[Api, Given, Sequence[str]], int]:
    def end(api: Api, given: Given, others: Sequence[str]) -> int:
        seconds = given_text(given, "timeout") or given_text(given, "time")
        query = {"signal": given_text(given, "signal") or None, "t": integer(seconds) if seconds else None}
        return for_each(others, lambda name: api.call("POST", container_path(name, verb), query))

    return end


def _plain(verb: str) -> Callable[[Api, Given, Sequence[str]], int]:
    def do(api: Api, given: Given, others: Sequence[str]) -> int:
        return for_each(others, lambda name: api.call("POST", container_path(name, verb)))

    return do


def kill_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine kill CONTAINER...`."""
    query = {"signal": given_text(given, "signal") or None}
    return for_each(others, lambda name: api.call("POST", container_path(name, "kill"), query))


def wait_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine wait CONTAINER...`: print the exit codes."""
    status = 0
    for container in others:
        try:
            print(api.call("POST", container_path(container, "wait"))["StatusCode"], flush=True)
        except ApiError as error:
            print(f"Error response from daemon: {error}", file=sys.stderr)
            status = 1
    return status


def rm_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine rm CONTAINER...`."""
    query = {"force": bool(given.get("force")), "v": bool(given.get("volumes")), "link": bool(given.get("link"))}
    names = [name.strip("/") for name in others]
    call: Callable[[str], object] = lambda name: api.call("DELETE", container_path(name), query)  # noqa: E731
    return for_each(names, call, absent_is_fine=bool(given.get("force")))


def rename_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine rename CONTAINER NEW_NAME`."""
    container, name = others
    try:
        api.call("POST", container_path(container, "rename"), {"name": name})
    except ApiError as error:
        print(
            f"Error response from daemon: {error}\nError: failed to rename container named {container}", file=sys.stderr
        )
        return 1
    return 0


FUNCTIONS = {
    "stop": (_ending("stop"), STOP_OPTIONS),
    "restart": (_ending("restart"), STOP_OPTIONS),
    "kill": (kill_verb, KILL_OPTIONS),
    "pause": (_plain("pause"), ()),
    "unpause": (_plain("unpause"), ()),
    "wait": (wait_verb, ()),
    "rm": (rm_verb, RM_OPTIONS),
    "rename": (rename_verb, ()),
}
