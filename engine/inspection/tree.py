"""Finds the processes of one engine: which container each is for, and which of them belongs below which.

From /proc alone, but for the names of containers, which only the database knows. The daemon is who has the exec root's
lock open. What it has forked, and what that has forked, is its own; what has outlived another daemon is known by what
it is called, and by the containers of which the exec root has a directory.
"""

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from engine.daemon.store import names
from engine.dataclass import dataclass
from engine.inspection import procfs
from engine.inspection.procfs import Brief

_DATA = re.compile(r"(.*)/(?:engine\.db|containers/[0-9a-f]{64}/.*)")


@dataclass(frozen=True, slots=True)
class Row:
    """One process of the tree. depth: how far below the daemon; container: its id as far as it is known, or empty."""

    brief: Brief
    depth: int
    container: str


@dataclass(frozen=True, slots=True)
class Tree:
    """The processes of one engine. daemon: its pid, None when there is none; rows: parents before their children.

    names: of containers, by their ids
    """

    daemon: int | None
    rows: tuple[Row, ...]
    names: Mapping[str, str]


def find(exec_root: str) -> Tree:
    """The processes of the engine of this exec root."""
    home = _Home(os.path.realpath(exec_root))
    daemon = next((pid for pid, each in home.briefs.items() if each.kind == "daemon" and home.locked_by(pid)), None)
    tops = [daemon] if daemon is not None else []
    known = set(home.below(tops))
    left = [pid for pid, each in home.briefs.items() if each.kind and pid not in known and home.left(each)]
    tops += sorted(set(left) - {pid for top in left for pid in home.below(home.children.get(top, ()))})
    rows = [row for top in tops for row in home.rows(top)]
    return Tree(daemon, tuple(rows), _names(rows))


def of_pidfile(path: str) -> str | None:
    """The exec root of the daemon whose pid is in this file; None when it does not run. Raises OSError, ValueError."""
    with open(path) as file:
        pid = int(file.read())
    locked = (os.path.dirname(link) for link in procfs.links(pid) if link.endswith("/lock"))
    return next((root for root in locked if os.path.isdir(os.path.join(root, "stage"))), None)


class _Home:
    """An exec root, and all processes of the host, as they are at one moment."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._ids = _list(os.path.join(root, "containers"))
        self.briefs = procfs.all_briefs()
        self.children: dict[int, list[int]] = {}
        for each in sorted(self.briefs.values(), key=lambda brief: brief.start):
            self.children.setdefault(each.parent, []).append(each.pid)

    def locked_by(self, pid: int) -> bool:
        """Whether this process has the root's lock open."""
        return os.path.join(self._root, "lock") in procfs.links(pid)

    def left(self, each: Brief) -> bool:
        """Whether this process of an engine belongs to the root, whoever its parent is."""
        return self.container(each) in self._ids or (
            each.kind in ("resolver", "proxy") and self._root in procfs.links(each.pid)
        )

    def container(self, each: Brief) -> str:
        """The id of the container that a process is for, as far as it tells; else empty."""
        if not each.kind:
            return ""
        directory = os.path.join(self._root, "containers", "")
        held = (
            link.removeprefix(directory).partition("/")[0]
            for link in procfs.links(each.pid)
            if link.startswith(directory)
        )
        return next(held, "") or next((found for found in self._ids if each.of and found.startswith(each.of)), each.of)

    def below(self, tops: Iterable[int]) -> Iterator[int]:
        """These processes and all that descend from them."""
        pending = list(tops)
        while pending:
            pid = pending.pop()
            yield pid
            pending += self.children.get(pid, ())

    def rows(self, pid: int, depth: int = 0, above: str = "") -> Iterator[Row]:
        """A process and those of its descendants that are the engine's, and of each container the first process."""
        each = self.briefs[pid]
        container = self.container(each) or above
        yield Row(each, depth, container)
        if each.kind:
            for child in self.children.get(pid, ()):
                yield from self.rows(child, depth + 1, container)


def _names(rows: list[Row]) -> dict[str, str]:
    """The containers' names, by a look into the database that disturbs nobody; none where that cannot be read."""
    for row in rows:
        for link in procfs.links(row.brief.pid):
            found = _DATA.fullmatch(link)
            if found and os.path.exists(path := f"{found[1]}/engine.db"):
                try:
                    return names.of_containers(path)
                except (OSError, sqlite3.Error):  # nobody has made its tables yet, or it is beyond reading
                    return {}
    return {}


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []
