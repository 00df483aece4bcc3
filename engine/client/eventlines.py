"""The verb `engine events`: shows what happens, as it happens.

Runs in the client's one thread.
"""

import time
from collections.abc import Sequence

from engine.client.api import Api
from engine.client.display import parse_time
from engine.client.filtering import FILTER, query_of
from engine.client.showing.listings import shown
from engine.client.transport import Object
from engine.commandline import Given, Option, given_text, given_texts

OPTIONS = (
    FILTER,
    Option("format", "Format output: 'json', or a Go template"),
    Option("since", "Show all events created since timestamp"),
    Option("until", "Stream events until this timestamp"),
)
_BILLION = 10**9


def events_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine events`: until its end is asked for, or the daemon goes. Raises Invalid, ApiError."""
    now, form = time.time(), given_text(given, "format")
    times = {name: parse_time(given_text(given, name), now) for name in ("since", "until") if name in given}
    with api.open("GET", "/events", {**times, "filters": query_of(given_texts(given, "filter"))}) as response:
        for event in response.documents():
            print(shown(event, form) if form else line(event), flush=True)
    return 0


def line(event: Object) -> str:
    """One event of GET /events as docker shows it: the time, the kind, what was done, to what, and its attributes."""
    at = int(event.get("timeNano") or event["time"] * _BILLION)
    local = time.localtime(at // _BILLION)
    zone = time.strftime("%z", local)
    offset = f"{zone[:3]}:{zone[3:]}" if local.tm_gmtoff else "Z"
    moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}.{at % _BILLION:09d}{offset}"
    actor = event.get("Actor") or {}
    attributes = ", ".join(f"{name}={value}" for name, value in sorted((actor.get("Attributes") or {}).items()))
    text = f"{moment} {event['Type']} {event['Action']} {actor.get('ID', '')}"
    return f"{text} ({attributes})" if attributes else text


FUNCTIONS = {"events": (events_verb, OPTIONS)}
