"""A name occurs once: who hears it knows the room. What occurs twice is listed, with what tells the two apart."""

from collections import Counter

from tests.floors.sources import files

# Each group holds file names that stand in several folders, and says why a reader is not misled.
ALIKE = {
    "a verb, of the noun that its folder is": {
        *("create", "listing", "prune", "remove", "run", "shown", "update", "filters", "options", "usage"),
    },
    "a noun's endpoints, its table in the store and its verbs for the command line": {
        *("build", "events", "files", "life", "names", "networks", "system", "volumes"),
        *("everyday", "websocket", "archives"),
    },
    "a table of messages, and what it is about": {"content", "control", "worker", "policy", "session", "known"},
    "the way into a process": {"main"},
    "what one side writes and the other one reads": {"reader", "writer", "lines", "streams", "transport", "progress"},
    "the record, the parts or the store of the noun that its folder is": {
        *("record", "parts", "store", "table", "request", "query", "report", "sources", "verbs", "choice", "changes"),
    },
    "the daemon's side, and the kernel's or the container's": {
        *("addresses", "adopting", "devices", "fetching", "logs", "mounts", "ports"),
    },
}


def test_a_name_that_occurs_twice_is_known_to() -> None:
    """And one that does not any more is taken off the list."""
    counted = Counter(path.stem for path in files(".py", trees=("engine",)) if path.stem != "__init__")
    twice = {name for name, count in counted.items() if count > 1}
    assert twice == {name for names in ALIKE.values() for name in names}
