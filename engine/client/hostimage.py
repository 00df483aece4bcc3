"""Makes a root filesystem, as a tar, of programs of this host with the loaders and libraries that they need.

Runs in the client, as any user who may read the programs. The daemon imports it like any other root filesystem (POST
/images/create?fromSrc=-). Files keep their paths on the host, with the symbolic links that lead to them.
"""

import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Sequence

from engine.client import elf, libraries
from engine.errors import Invalid, NotFound

_CHUNK = 256 * 1024
_MOST_LINKS = 40
_SCRIPT = b"#!"

# What programs expect beside themselves: directories (path → mode) and small files (path → contents).
_DIRECTORIES = {"dev": 0o755, "etc": 0o755, "proc": 0o555, "root": 0o700, "sys": 0o555, "tmp": 0o1777, "var": 0o755}
_FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}
# The directories in which programs look; on a host with a merged /usr they are symbolic links.
_MERGED = ("bin", "sbin", "lib", "lib64")
# The path at which programs expect a shell.
_SHELL = "/bin/sh"
_BUSYBOX = "busybox"


class _Tree:
    """The image's files and symbolic links: path without its first slash → the host's path, or the link's target."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.links: dict[str, str] = {}

    def add(self, path: str) -> str:
        """Add a file of the host, with the symbolic links on the way to it; returns its real path."""
        here, waiting, links = "", path.split("/")[::-1], 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                here = os.path.dirname(here)
                continue
            inner = f"{here}/{part}"
            if not os.path.islink(inner):
                here = inner
                continue
            target = os.readlink(inner)
            links += 1
            if links > _MOST_LINKS:
                raise Invalid(f"too many symbolic links at {path}")
            self.links[inner.lstrip("/")] = target
            here = "" if target.startswith("/") else here
            waiting += target.split("/")[::-1]
        if not os.path.isfile(here):
            raise NotFound(f"{path} is not a file on this host")
        self.files[here.lstrip("/")] = here
        return here

    def add_program(self, path: str) -> str:
        """Add a program with its loader and libraries, or a script with its interpreter; returns its real path."""
        real = self.add(path)
        with open(real, "rb") as file:
            head = file.read(256)
        if head.startswith(elf.MAGIC):
            for library in libraries.needed_by(real):
                self.add(library)
        elif head.startswith(_SCRIPT):
            words = head.removeprefix(_SCRIPT).split(b"\n", 1)[0].split()
            if words:
                self.add_program(os.fsdecode(words[0]))
        else:
            raise Invalid(f"{path} is neither an ELF program nor a script")
        return real


def rootfs(programs: Sequence[str]) -> Iterator[bytes]:
    """The tar, in pieces; `programs` are names on PATH, or paths.

    busybox brings a link for each of its applets. All but a read error is found before the first piece: raises NotFound
    for a program or library that is missing, Invalid for a file that is no program, and OSError.
    """
    tree = _Tree()
    for program in programs:
        path = shutil.which(program)
        if path is None:
            raise NotFound(f"program {program} was not found on this host")
        real = tree.add_program(os.path.abspath(path))
        if os.path.basename(real) == _BUSYBOX:
            _add_applets(tree, real)
    _add_merged(tree)
    return _pieces(tree)


def _add_merged(tree: _Tree) -> None:
    """Add the host's symbolic links for /bin and the like, where they lead to files in the image."""
    for name in _MERGED:
        if os.path.islink(f"/{name}"):
            target = os.readlink(f"/{name}")
            if any(path.startswith(f"{target.strip('/')}/") for path in (*tree.files, *tree.links)):
                tree.links[name] = target


def _add_applets(tree: _Tree, busybox: str) -> None:
    """Add a link beside busybox for each applet that it lists, and /bin/sh, unless the name is taken."""
    listed = subprocess.run([busybox, "--list"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    directory = os.path.dirname(busybox).lstrip("/")
    for applet in listed.stdout.split():
        place = f"{directory}/{applet}"
        if "/" not in applet and place not in tree.files and place not in tree.links:
            tree.links[place] = os.path.basename(busybox)
    shell = _SHELL.lstrip("/")
    if not os.path.islink(os.path.dirname(_SHELL)) and shell not in tree.files:
        tree.links.setdefault(shell, busybox)


def _pieces(tree: _Tree) -> Iterator[bytes]:
    small = {path: data for path, data in _FILES.items() if path not in tree.files and path not in tree.links}
    for path, mode in _directories(tree, small).items():
        yield _header(path, tarfile.DIRTYPE, mode=mode)
    for path, target in sorted(tree.links.items()):
        yield _header(path, tarfile.SYMTYPE, mode=0o777, link=target)
    for path, data in sorted(small.items()):
        yield _header(path, tarfile.REGTYPE, mode=0o644, size=len(data)) + _padded(data)
    for path, source in sorted(tree.files.items()):
        yield from _file(path, source)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _directories(tree: _Tree, small: dict[str, bytes]) -> dict[str, int]:
    """path → mode of every directory, parents first; where the image has a link of that path, the link stays."""
    found = {path: mode for path, mode in _DIRECTORIES.items() if path not in tree.links}
    for path in (*tree.files, *tree.links, *small):
        while path := os.path.dirname(path):
            found.setdefault(path, 0o755)
    return dict(sorted(found.items()))


def _file(path: str, source: str) -> Iterator[bytes]:
    with open(source, "rb") as file:
        state = os.fstat(file.fileno())
        # Root owns the file in the image, whoever owns it here. The copy is not setuid.
        mode = stat.S_IMODE(state.st_mode) & 0o777
        yield _header(path, tarfile.REGTYPE, mode=mode, size=state.st_size, mtime=int(state.st_mtime))
        left = state.st_size
        while left:
            data = file.read(min(_CHUNK, left))
            if not data:
                raise Invalid(f"{source} became shorter while it was read")
            left -= len(data)
            yield data
    yield bytes(-state.st_size % tarfile.BLOCKSIZE)


def _header(path: str, kind: bytes, mode: int, size: int = 0, mtime: int = 0, link: str = "") -> bytes:
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.size, member.mtime, member.linkname = kind, mode, size, mtime, link
    return member.tobuf(tarfile.PAX_FORMAT)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % tarfile.BLOCKSIZE)
