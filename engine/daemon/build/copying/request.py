"""What a COPY or an ADD asks for, and where it is to be put: plain data between the executor and this room.

Pure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.daemon.build.copying.fetching import Fetched


def _never() -> None:
    """Nothing ends the copying early."""


@dataclass(frozen=True, slots=True)
class Request:
    """One COPY or ADD, its words expanded.

    sources: paths and patterns in the root; what `fetching.fetch` got in the place of each URL
    inline: (name, contents) of each here-document
    keep_owners: COPY --from: files keep their owners unless there is a chown; else they are root's
    link: the destination's links in the base are not followed
    unpack: local archives are unpacked (ADD); unpack_fetched: downloaded ones are (ADD --unpack)
    shown: the instruction's name for texts: COPY or ADD; check: called again and again, raises to end it
    """

    sources: tuple[str | Fetched, ...]
    destination: str
    workdir: str = "/"
    chown: str = ""
    chmod: str = ""
    exclude: tuple[str, ...] = ()
    parents: bool = False
    link: bool = False
    unpack: bool = False
    unpack_fetched: bool = False
    keep_owners: bool = False
    inline: tuple[tuple[str, bytes], ...] = ()
    shown: str = "COPY"
    check: Callable[[], None] = field(default=_never, compare=False)


@dataclass(frozen=True, slots=True)
class Base:
    """The image that is copied into: its layers' directories below `layer_root`, lowest first.

    scratch: the context's directory for what is made on the way
    """

    layers: tuple[str, ...]
    layer_root: str
    scratch: int
