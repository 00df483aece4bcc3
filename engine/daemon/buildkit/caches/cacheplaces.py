"""Where a cache is read from: a registry, or a content store of the client's.

Runs on the threads of a build, one blob at a time. What is read is bounded, and has the digest that it was asked by.
"""

import contextlib
from collections.abc import Callable

from engine.annotating import Protocol
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.images import image as documents
from engine.daemon.images.content import Incoming, digest_of
from engine.daemon.images.registry.reads import Registry
from engine.errors import Invalid, SystemFailure

_PIECE = 256 * 1024


class CachePlace(Protocol):
    """A place that has a cache."""

    def document(self) -> bytes:
        """The manifest or index of the cache. Raises EngineErrors."""

    def nested(self, digest: str) -> bytes:
        """A manifest that an index names. Raises EngineErrors."""

    def small(self, digest: str, limit: int) -> bytes:
        """A blob of at most so many bytes. Raises EngineErrors."""

    def fetch(self, digest: str, size: int, into: Incoming) -> None:
        """A blob of this size; the caller keeps it. Raises EngineErrors; Invalid where it is another."""

    def close(self) -> None:
        """Nothing more is read."""


class InRegistry:
    """A cache or an image in a registry. reference: tag or digest; check: raises to end what goes on"""

    def __init__(self, registry: Registry, reference: str, check: Callable[[], None]) -> None:
        self._registry = registry
        self._reference = reference
        self._check = check

    def document(self) -> bytes:
        """The manifest or index of that tag or digest."""
        self._registry.ping()
        return self._registry.manifest(self._reference)[0]

    def nested(self, digest: str) -> bytes:
        """A manifest of the same repository."""
        return self._registry.manifest(digest)[0]

    def small(self, digest: str, limit: int) -> bytes:
        """A blob of the same repository."""
        data = bytearray()
        with self._registry.blob(digest) as (answer, _):
            while piece := answer.read(_PIECE):
                data += piece
                if len(data) > limit:
                    raise Invalid(f"{digest} is larger than the {limit} bytes allowed")
        if digest_of(bytes(data)) != digest:
            raise SystemFailure(f"the registry has other content for {digest}")
        return bytes(data)

    def fetch(self, digest: str, size: int, into: Incoming) -> None:
        """A blob of the same repository."""
        with self._registry.blob(digest) as (answer, _):
            while into.size <= size and (piece := answer.read(_PIECE)):
                self._check()
                into.write(piece)
        if into.size != size or into.digest != digest:
            raise Invalid(f"the registry has other content for {digest}")

    def close(self) -> None:
        """End the connections."""
        with contextlib.suppress(OSError):  # they may be broken already
            self._registry.transport.close()


class InClientStore:
    """A cache in a directory of the client, which serves it as a content store. digest: of the manifest or index"""

    def __init__(self, store: ClientStore, digest: str) -> None:
        self._store = store
        self._digest = digest
        self.fetch = store.fetch
        self.small = store.read

    def document(self) -> bytes:
        """The manifest or index of that digest."""
        return self._store.read(self._digest, documents.LARGEST_DOCUMENT)

    def nested(self, digest: str) -> bytes:
        """A manifest of the same store."""
        return self._store.read(digest, documents.LARGEST_DOCUMENT)

    def close(self) -> None:
        """Nothing: the session has the connection."""
