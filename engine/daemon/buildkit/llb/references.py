"""The trees that a build has promised to its frontends, each under an id, and the definition by which a graph names it.

A tree is made when somebody needs its files, and not before: a frontend asks for many states of which it only goes on
from. The ids and names are random, and good as long as the build that they are of. Any thread may look; the lock of the
names is held for a look or a change.
"""

import os
import threading
from collections.abc import Callable
from typing import NoReturn

from engine.daemon.buildkit.llb import definition
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.outcome import Tree
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.errors import EngineError, Invalid, NotFound
from engine.protocols import protobuf

NAMED = "engine-result://"
"""The kind of source that stands for a tree that this daemon has promised; no other daemon knows it."""
_MOST = 100_000
TITLE = "[internal] result of another target"
"""What people see of such a source."""


class Reference:
    """One promised tree. definition: by which another graph names it"""

    __slots__ = ("_make", "definition")

    def __init__(self, definition: ops.Definition, make: Callable[[], Tree]) -> None:
        """make: gives the tree, and makes it at the first time. Raises EngineErrors"""
        self.definition = definition
        self._make = make

    def tree(self) -> Tree:
        """The tree, made now if it was not before. Raises EngineErrors."""
        return self._make()


class References:
    """The references of one frontend, by the ids that it got."""

    def __init__(self) -> None:
        self._known: dict[str, Reference] = {}

    def add(self, reference: Reference) -> str:
        """Promise it; its id. Raises Invalid where too many are promised."""
        if len(self._known) >= _MOST:
            raise Invalid(f"a frontend is promised at most {_MOST} results")
        id = os.urandom(16).hex()
        self._known[id] = reference
        return id

    def find(self, id: str) -> Reference:
        """The reference of that id. Raises NotFound."""
        try:
            return self._known[id]
        except KeyError:
            raise NotFound(f"no such ref: {id}") from None


_changed = threading.Lock()
_named: dict[str, Reference] = {}  # guarded by `_changed`


def promised(tree: Tree) -> tuple[Reference, Callable[[], None]]:
    """A reference to a tree that is there, and the function that ends it: with the build that keeps the tree."""
    return _registered(tree.platform, lambda: tree)


def failed(error: EngineError) -> tuple[Reference, Callable[[], None]]:
    """A reference to a tree whose making has failed, which whoever needs the tree is told then, and what ends it."""

    def fail() -> NoReturn:
        raise error

    return _registered(platforms.host(), fail)


def _registered(platform: Platform, make: Callable[[], Tree]) -> tuple[Reference, Callable[[], None]]:
    token = os.urandom(16).hex()
    reference = Reference(_definition(token, platform), make)
    with _changed:
        _named[token] = reference

    def forget() -> None:
        with _changed:
            del _named[token]

    return reference, forget


def named(identifier: str) -> Reference:
    """The reference that a source names. Raises NotFound where the build that it was of has ended."""
    with _changed:
        found = _named.get(identifier.removeprefix(NAMED))
    if found is None:
        raise NotFound("the result that an input names is of a build that has ended, or of another daemon")
    return found


def _definition(token: str, platform: Platform) -> ops.Definition:
    """A graph of one source."""
    source: ops.Op = {
        "source": {"identifier": NAMED + token, "attrs": {}},
        "platform": {"Architecture": platform.architecture, "OS": platform.os, "Variant": platform.variant},
    }
    return closed(protobuf.encode(ops.Op, source))


def closed(written: bytes) -> ops.Definition:
    """The definition that is about the first output of this operation, with the metadata that clients insist on."""
    digest = definition.digest_of(written)
    last: ops.Op = {"inputs": [{"digest": digest, "index": 0}]}
    said: ops.OpMetadata = {"description": {"llb.customname": TITLE}}
    return {"ops": [written, protobuf.encode(ops.Op, last)], "metadata": {digest: said}, "Source": None}
