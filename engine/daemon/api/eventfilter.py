"""The filters of GET /events: from their names and values to one function that says yes or no to an event.

Pure; made once a request and called in its thread. The rules are dockerd's: any value of a filter will do, but labels
must all be there; the name of a kind (`container`, `network`, ...) asks for the beginning of an actor's id or name,
whatever the actor is; a filter that nobody knows is passed over, as dockerd's own events never refuse one.
"""

from collections.abc import Callable

from engine.daemon.images.reference import Reference
from engine.daemon.runtime.events import Event
from engine.errors import Invalid

SCOPE = "local"
"""Of every event here: the other is `swarm`."""
KINDS = ("config", "container", "daemon", "network", "node", "plugin", "secret", "service", "volume")
"""What may be a filter by name; an image's is different."""

Match = Callable[[Event], bool]

# Actions that carry more after a colon, which a filter by the bare word is to catch.
_OPEN_ENDED = frozenset({"health_status", "exec_create", "exec_start"})


def compile_filters(filters: dict[str, tuple[str, ...]]) -> Match:
    """The function for all filters at once."""
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
        return text  # an id, or nothing


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
