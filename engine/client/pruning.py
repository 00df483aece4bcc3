"""The verbs `engine ... prune`: remove what nobody uses, after a question.

Runs in the client's one thread. Without `--force` the user is asked at the terminal; any other answer than `y` leaves
everything as it is, and so does an input that ends.
"""

import sys
from collections.abc import Callable, Sequence

from engine.client.api import Api
from engine.client.display import shown_size
from engine.client.filtering import PRUNE_FILTER, query_of
from engine.client.transport import Object
from engine.commandline import Given, Option, given_texts
from engine.errors import Invalid

_FORCE = Option("force", "Do not prompt for confirmation", short="f", kind="flag", default=False)
OPTIONS = (PRUNE_FILTER, _FORCE)
ALL_OPTIONS = (
    Option("all", "Remove all unused ones, not just those without a name", short="a", kind="flag", default=False),
    *OPTIONS,
)
SYSTEM_OPTIONS = (
    Option("all", "Remove all unused images not just dangling ones", short="a", kind="flag", default=False),
    *OPTIONS,
    Option("volumes", "Prune anonymous volumes", kind="flag", default=False),
)
_WARNINGS = {
    "containers": "This will remove all stopped containers.",
    "images": "This will remove all dangling images.",
    "all images": "This will remove all images without at least one container associated to them.",
    "networks": "This will remove all custom networks not used by at least one container.",
    "volumes": "This will remove anonymous local volumes not used by at least one container.",
    "all volumes": "This will remove all local volumes not used by at least one container.",
}
_SAID = {"Untagged": "untagged", "Deleted": "deleted"}


def _prune(noun: str) -> Callable[[Api, Given, Sequence[str]], int]:
    def prune(api: Api, given: Given, others: Sequence[str]) -> int:
        every = bool(given.get("all"))
        if not given.get("force") and not agreed(_WARNINGS[f"all {noun}" if every else noun]):
            return 1
        print_all(_HEADS[noun], _pruned(api, noun, given_texts(given, "filter"), every))
        return 0

    return prune


def _pruned(api: Api, noun: str, filters: Sequence[str], every: bool) -> tuple[list[str], int | None]:
    """Prune one kind: (the lines that tell what is gone, the bytes that are free now; None where nobody counts)."""
    more = []
    if noun == "images":
        more = [("dangling", "false" if every else "true")]
    if noun == "volumes" and every:
        more = [("all", "true")]
    answer: Object = api.call("POST", f"/{noun}/prune", {"filters": query_of(filters, *more)})
    found = answer.get(_FIELDS[noun]) or ()
    lines = [
        each if isinstance(each, str) else f"{_SAID[what]}: {name}" for each in found for what, name in _told(each)
    ]
    return lines, answer.get("SpaceReclaimed")


def _told(each: str | Object) -> list[tuple[str, str]]:
    return [("", each)] if isinstance(each, str) else list(each.items())


def print_all(head: str, pruned: tuple[list[str], int | None]) -> None:
    """Print what is gone, below its head, and how much room that makes."""
    lines, freed = pruned
    if lines:
        print("\n".join((head, *lines, "")))
    if freed is not None:
        print(f"Total reclaimed space: {shown_size(freed)}")


def agreed(warning: str) -> bool:
    """Ask the user; True for a yes."""
    print(f"WARNING! {warning}\nAre you sure you want to continue? [y/N] ", end="", flush=True)
    answer = sys.stdin.readline().strip().lower()
    if not answer:
        print()
    return answer in ("y", "yes")


def system_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine system prune`: containers, networks, volumes where asked for, images, the cache of builds. Raises
    ApiError.
    """
    every, volumes = bool(given.get("all")), bool(given.get("volumes"))
    filters = given_texts(given, "filter")
    if volumes and any(text.startswith("until=") for text in filters):
        raise Invalid('The "until" filter is not supported with "--volumes"')
    nouns = ("containers", "networks", *(("volumes",) if volumes else ()), "images")
    if not given.get("force"):
        things = ["all stopped containers", "all networks not used by at least one container"]
        things += ["all anonymous volumes not used by at least one container"] if volumes else []
        things += ["all images without at least one container associated to them" if every else "all dangling images"]
        things += ["all build cache" if every else "unused build cache"]
        if not agreed("This will remove:\n" + "\n".join(f"  - {thing}" for thing in things) + "\n"):
            return 1
    freed = 0
    for noun in nouns:
        lines, more = _pruned(api, noun, filters, every and noun == "images")
        print_all(_HEADS[noun], (lines, None))
        freed += more or 0
    built: Object = api.call("POST", "/build/prune", {"all": every, "filters": query_of(filters)})
    if caches := built.get("CachesDeleted"):
        print("\n".join(("Deleted build cache objects:", *caches, "")))
    print(f"Total reclaimed space: {shown_size(freed + (built.get('SpaceReclaimed') or 0))}")
    return 0


_FIELDS = {
    "containers": "ContainersDeleted",
    "images": "ImagesDeleted",
    "networks": "NetworksDeleted",
    "volumes": "VolumesDeleted",
}
_HEADS = {
    "containers": "Deleted Containers:",
    "images": "Deleted Images:",
    "networks": "Deleted Networks:",
    "volumes": "Deleted Volumes:",
}

FUNCTIONS = {
    "container prune": (_prune("containers"), OPTIONS),
    "image prune": (_prune("images"), ALL_OPTIONS),
    "network prune": (_prune("networks"), OPTIONS),
    "volume prune": (_prune("volumes"), ALL_OPTIONS),
    "system prune": (system_verb, SYSTEM_OPTIONS),
}
