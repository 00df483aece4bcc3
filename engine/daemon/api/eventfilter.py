"""Compiles the filters of GET /events into one function that says whether a client is sent an event.

Pure; made once a request and called in its thread. The rules are dockerd's. An event passes a filter when any value of
the filter fits, but of labels all must be there. A filter by the name of a kind (`container`, `network`, ...) compares
the beginning of an actor's id or name, whatever kind the actor is. Unknown filters are passed over, because dockerd's
own /events never refuses one.
"""

from collections.abc import Callable

from engine.daemon.images.reference import Reference
from engine.daemon.runtime.events import Event
from engine.errors import Invalid

SCOPE = "local"
"""The scope of every event here; dockerd's other scope is `swarm`."""
KINDS = ("config", "container", "daemon", "network", "node", "plugin", "secret", "service", "volume")
"""The kinds of events whose name is a filter too; the filter `image` has rules of its own."""

Match = Callable[[Event], bool]

# Actions that carry more after a colon. A filter by the bare word is to match them too.
_OPEN_ENDED = frozenset({"health_status", "exec_create", "exec_start"})


def compile_filters(filters: dict[str, tuple[str, ...]]) -> Match:
    """One function that says whether an event passes all filters."""
    matches = [_FILTERS[name](values) for name, values in filters.items() if values and name in _FILTERS]
    return lambda event: all(match(event) for match in matches)


def _type(values: tuple[str, ...]) -> Match:
    return lambda event: event.kind in values


def _scope(values: tuple[str, ...]) -> Match:
    return lambda _event: SCOPE in values


def _action(values: tuple[str, ...]) -> Match:
    if _OPEN_ENDED.isdisjoint(values):
        return lambda event: event.action in values
    return lambda event: event.action.startswith(values)


def _by_name(values: tuple[str, ...]) -> Match:
    return lambda event: event.actor.startswith(values) or event.attributes.get("name", "").startswith(values)


def _image(values: tuple[str, ...]) -> Match:
    def match(event: Event) -> bool:
        name = event.attributes.get("name" if event.kind == "image" else "image", "")
        return any(text in values for text in (event.actor, name, _without_tag(event.actor), _without_tag(name)))

    return match


def _without_tag(text: str) -> str:
    try:
        return Reference.parse(text).familiar_name
    except Invalid:
        return text  # the text is an id, or empty


def _label(values: tuple[str, ...]) -> Match:
    wanted = [value.partition("=") for value in values]

    def match(event: Event) -> bool:
        labels = event.attributes
        return all(name in labels and (not equals or labels[name] == value) for name, equals, value in wanted)

    return match


_FILTERS: dict[str, Callable[[tuple[str, ...]], Match]] = {
    "event": _action,
    "image": _image,
    "label": _label,
    "scope": _scope,
    "type": _type,
    **dict.fromkeys(KINDS, _by_name),
}
