"""The verb `engine logs`: shows what a container has written.

Runs in the client's one thread.
"""

import time
from collections.abc import Sequence

from engine.client.api import Api, container_path
from engine.client.display import parse_time
from engine.client.frames import Demultiplexer, Plain
from engine.client.writing import write_all
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid

OPTIONS = (
    Option("details", "Show extra details provided to logs", kind="flag", default=False),
    Option("follow", "Follow log output", short="f", kind="flag", default=False),
    Option("since", 'Show logs since timestamp (e.g. "2013-01-02T13:23:37Z") or relative (e.g. "42m" for 42 minutes)'),
    Option("tail", "Number of lines to show from the end of the logs", short="n", default="all"),
    Option("timestamps", "Show timestamps", short="t", kind="flag", default=False),
    Option("until", 'Show logs before a timestamp or relative (e.g. "42m" for 42 minutes)'),
)


def logs_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine logs CONTAINER`: its stdout to our stdout, and its stderr to our stderr. Raises Invalid, ApiError."""
    (container,) = others
    now = time.time()
    query: dict[str, str | int] = {
        "stdout": True,
        "stderr": True,
        "tail": given_text(given, "tail", "all"),
        **{name: bool(given.get(name)) for name in ("details", "follow", "timestamps")},
        **{name: _moment(name, given_text(given, name), now) for name in ("since", "until") if name in given},
    }
    tty = api.call("GET", container_path(container, "json"))["Config"]["Tty"]
    frames: Plain | Demultiplexer = Plain() if tty else Demultiplexer()
    with api.open("GET", container_path(container, "logs"), query) as response:
        for data in response.pieces():
            for stream, piece in frames.feed(data):
                write_all(2 if stream == 2 else 1, piece)
    return 0


def _moment(name: str, text: str, now: float) -> str:
    try:
        return parse_time(text, now)
    except Invalid as error:
        raise Invalid(f'invalid value for "{name}": {error}') from error


FUNCTIONS = {"logs": (logs_verb, OPTIONS)}
