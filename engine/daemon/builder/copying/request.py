"""The request of one COPY or ADD, and the base image that it copies into: plain data from the executor to this package.

Pure.
"""

import hashlib
import posixpath
from collections.abc import Callable

from engine.daemon.builder.copying.fetching import Fetched
from engine.daemon.builder.copying.remembered import Remembered
from engine.daemon.builder.graph.node import Value
from engine.dataclass import dataclass, field, replace


def _never() -> None:
    """The default of `check`: nothing ends the copying early."""


@dataclass(frozen=True, slots=True)
class Request:
    """One COPY or ADD, with the variables in its words expanded.

    sources: paths and patterns in the root; in the place of each URL what `fetching.fetch` returned for it
    inline: (name, contents) of each here-document
    keep_owners: for COPY --from: files keep their owners unless there is a chown; else all files are root's
    link: symbolic links of the base on the way to the destination are not followed (--link)
    unpack: local archives are unpacked (ADD); unpack_fetched: downloaded ones are (ADD --unpack)
    keep_git_dir: whether a repository's own files come too (ADD --keep-git-dir), None where nobody says
    shown: the instruction's name for texts, COPY or ADD; check: called again and again, raises to end the copying
    remembered: digests of files of the root that earlier builds have read, None for none
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
    keep_git_dir: bool | None = None
    shown: str = "COPY"
    check: Callable[[], None] = field(default=_never, compare=False)
    remembered: Remembered | None = field(default=None, compare=False)

    @property
    def sources_named(self) -> list[str]:
        """The sources as the instruction has them, a fetched one by its URL."""
        return [each if isinstance(each, str) else each.url for each in self.sources]

    @property
    def place(self) -> str:
        """The destination as a whole, with a slash at its end where it is to be a directory."""
        where = posixpath.join("/", self.workdir, self.destination)
        clean = posixpath.normpath("/" + where.lstrip("/"))
        return f"{clean}/" if where.endswith(("/", "/.")) and clean != "/" else clean

    def decides(self) -> list[Value]:
        """All of it that decides what is made of given files."""
        return [
            self.sources_named,
            self.destination,
            self.workdir,
            self.chown,
            self.chmod,
            self.exclude,
            self.parents,
            self.link,
            self.unpack,
            self.unpack_fetched,
            self.keep_owners,
            self.keep_git_dir,
            [[name, hashlib.sha256(data).hexdigest()] for name, data in self.inline],
        ]

    def checked(self, check: Callable[[], None]) -> "Request":
        """The same request, which `check` may end."""
        return replace(self, check=check)


@dataclass(frozen=True, slots=True)
class Base:
    """The image that is copied into: its layers' directories below `layer_root`, lowest first.

    scratch: descriptor of the context's directory for intermediate files
    """

    layers: tuple[str, ...]
    layer_root: str
    scratch: int
