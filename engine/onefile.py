"""Finds the engine's modules and files in `engine.pyz`, the one file that `engine bundle` writes, and starts it.

In that file this module is `__main__`, so it runs before any other module of the engine, in each process of such an
engine. `engine.bundle.pyz` writes what is read here. The process holds one descriptor of the file. Another file
that is renamed over it changes nothing for the process: a daemon and all that it starts stay of one version. A file
that was changed in place is noticed, and the import fails in words. `engine.origin` tells the rest of the engine of it.

The file is a ZIP archive behind a line for the kernel. Its comment says where the index is. The index is text: what
Python the code is for, a digest of all contents, a line for each block of packed files, and a line for each file. A
file is a source (`s`), the code that one version of Python makes of it (`c`), or data (`d`).
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - before anything that an older one does not have
    sys.exit("engine: it needs Python 3.11 or later, and this is %d.%d" % sys.version_info[:2])  # noqa: UP031 - any Python

import _imp
import _thread
import lzma
import marshal
import os
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.abc import Loader

FORM = 1
"""Of the file. A process that starts while the file is replaced may read the end of another one."""
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 22, "pb": 0}]
NATIVE = "_muxer._native"
_LONGEST_COMMENT = 64
_LONGEST_INDEX = 1 << 20
_MFD_NOEXEC_SEAL = 8  # Linux 6.3; a library may be mapped all the same, and a host may refuse any other memfd
_OWN = "/proc/self/fd/"


class OneFile:
    """The open file, which finds and loads modules for `sys.meta_path` (importlib's documentation, MetaPathFinder).

    descriptor: of the file, -1 once it is closed
    """

    def __init__(self, path: str) -> None:
        """Open the file, and read its index. Raises OSError, and ImportError for a file that is no such archive."""
        own = path.removeprefix(_OWN)
        inherited = path.startswith(_OWN) and own.isdecimal()
        self.descriptor = int(own) if inherited else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._place = self.path() if inherited else os.path.abspath(path)
        size = os.fstat(self.descriptor).st_size
        words = os.pread(self.descriptor, _LONGEST_COMMENT, max(size - _LONGEST_COMMENT, 0)).split(b"engine ")[-1]
        try:
            form, offset, packed = map(int, words.split())
        except ValueError:
            form = offset = packed = 0
        if form != FORM or not 0 < packed < _LONGEST_INDEX:
            raise ImportError(f"{self._place} was replaced while it started, or is damaged: start it again")
        self._index = b"\n" + _unpacked(os.pread(self.descriptor, packed, offset))
        self._starting = True
        self._unpacked: dict[int, bytes] = {}  # all blocks that a start reads; later the last one, during an import
        self._imports, self._turn = 0, _thread.allocate_lock()
        self._code_fits = self._told("python") == MAGIC_NUMBER.hex()
        self.digest = self._told("digest")

    def path(self) -> str:
        """Where the file is by now; ends in ` (deleted)` once there is another in its place."""
        return os.readlink(f"{_OWN}{self.descriptor}")

    def started(self) -> None:
        """Give back what was unpacked so far: from now on few modules are loaded."""
        self._starting = False
        self._unpacked = {}

    def close(self) -> None:
        """Give the descriptor up: from now on no module can be loaded."""
        self.started()
        os.close(self.descriptor)
        self.descriptor = -1

    def names(self, kind: str = "s") -> Iterator[str]:
        """The names of all files of a kind, relative and with slashes."""
        for line in self._index.decode().splitlines():
            words = line.split()
            if words[1:2] == [kind]:
                yield words[0]

    def read(self, name: str) -> bytes:
        """A source, or a file of data. Raises FileNotFoundError, and ImportError if the file was changed."""
        for kind in ("d", "s"):
            found = self._found(name, kind)
            if found is not None:
                return found
        raise FileNotFoundError(2, "No such file in the engine's file", name)

    def target(self) -> str | None:
        """The directory of what was compiled for this machine and C library; None where there is none that fits."""
        for name in self.names("d"):
            directory, _, file = name.rpartition("/")
            if file == "_native.abi3.so" and fits(directory.rpartition("/")[2]):
                return directory
        return None

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """The spec of a module that is in the file; None for any other module."""
        if name.partition(".")[0] not in ("engine", "_muxer"):
            return None
        if name == NATIVE:
            inside = self.target()
            # A loader with exec_module needs no load_module, which is deprecated; the checker's stubs ask for it.
            loader: Loader = _Native(self)  # type: ignore[assignment]  # see above
            return ModuleSpec(name, loader, origin=f"{self._place}/{inside}") if inside else None
        itself: Loader = self  # type: ignore[assignment]  # see above
        stem = name.replace(".", "/")
        for relative, is_package in ((f"{stem}.py", False), (f"{stem}/__init__.py", True)):
            if f"\n{relative} s ".encode() in self._index:
                spec = ModuleSpec(name, itself, origin=f"{self._place}/{relative}", is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [f"{self._place}/{stem}"]
                return spec
        return None

    def create_module(self, _spec: ModuleSpec) -> None:
        """Returns None, by which importlib makes a module like any other."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code in the module. Raises ImportError if the file was changed."""
        with self._turn:
            self._imports += 1
        try:
            exec(self.get_code(module.__name__), vars(module))
        finally:
            with self._turn:
                self._imports -= 1
                if not self._imports and not self._starting:
                    self._unpacked = {}

    def get_code(self, name: str) -> CodeType:
        """A module's code (importlib's InspectLoader)."""
        relative, place = self._where(name)
        made = self._found(relative, "c") if self._code_fits else None
        if made is None:
            code: CodeType = compile(self.read(relative), place, "exec", dont_inherit=True)
            return code
        code = marshal.loads(made)
        _imp._fix_co_filename(code, place)  # type: ignore[attr-defined]  # the checker's stubs lack it
        return code

    def uncompiled(self, name: str) -> bytes | None:
        """A module's source, where the file has no code of it for this Python; None where it has."""
        relative, _ = self._where(name)
        has_code = self._code_fits and self._line(f"{relative} c")
        return None if has_code else self.read(relative)

    def get_source(self, name: str) -> str:
        """A module's source, for tracebacks: without its comments, each line where it was."""
        return self.read(self._where(name)[0]).decode()

    def _where(self, name: str) -> tuple[str, str]:
        spec = self.find_spec(name)
        if spec is None or spec.origin is None:
            raise ImportError(f"no module {name} in {self._place}", name=name)
        return spec.origin.removeprefix(f"{self._place}/"), spec.origin

    def _told(self, key: str) -> str:
        return self._line(key).decode()

    def _line(self, start: str) -> bytes:
        key = f"\n{start} ".encode()
        begin = self._index.find(key)
        return self._index[begin + len(key) : self._index.index(b"\n", begin + 1)] if begin >= 0 else b""

    def _found(self, name: str, kind: str) -> bytes | None:
        line = self._line(f"{name} {kind}")
        if not line:
            return None
        block, start, size = map(int, line.split())
        return self._block(block)[start : start + size]

    def _block(self, number: int) -> bytes:
        held = self._unpacked.get(number)
        if held is not None:
            return held
        if self.descriptor < 0:
            raise ImportError(f"{self._place} is closed: this process has loaded all that it needs")
        offset, packed, check = map(int, self._line(f"block {number}").split())
        data = os.pread(self.descriptor, packed, offset)
        if zlib.crc32(data) != check:
            raise ImportError(f"{self._place} was changed while the engine ran: start the engine again")
        data = _unpacked(data)
        if self._starting:
            self._unpacked[number] = data
        elif self._imports:
            self._unpacked = {number: data}
        return data


class _Native:
    """Loads the C extension from a file in memory (memfd_create(2)), so that no directory is written to."""

    def __init__(self, whole: OneFile) -> None:
        self._whole = whole

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Map the extension. Raises ImportError in the words of the dynamic linker, and OSError."""
        data = self._whole.read(f"{self._whole.target()}/_native.abi3.so")
        descriptor = _memfd("engine-muxer")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            place = f"{_OWN}{descriptor}"
            loader = ExtensionFileLoader(spec.name, place)
            return loader.create_module(ModuleSpec(spec.name, loader, origin=place))
        finally:
            os.close(descriptor)  # what is mapped stays

    def exec_module(self, module: ModuleType) -> None:
        """Have the extension fill its module."""
        _imp.exec_dynamic(module)


def _memfd(name: str) -> int:
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    except OSError:  # EINVAL: the kernel is older
        return os.memfd_create(name, os.MFD_CLOEXEC)


def tag() -> tuple[str, tuple[int, ...]]:
    """What a library must be for: the machine with the C library, `x86_64-linux-gnu`, and that library's version.

    The version is (0,) where the library does not tell it.
    """
    machine = os.uname().machine
    if sys.maxsize < 2**32:
        machine += "-32"  # a kernel of 64 bits below programs of 32
    try:
        library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        library = version = ""
    if library != "glibc":
        return f"{machine}-linux-musl", (0,)
    return f"{machine}-linux-gnu", tuple(int(part) for part in version.split(".") if part.isdecimal())


def fits(target: str) -> bool:
    """Whether what was compiled for a target, `x86_64-linux-gnu-2.33`, runs in this process."""
    machine, _, least = target.rpartition("-")
    ours, version = tag()
    return machine == ours and tuple(map(int, least.split("."))) <= version


def _unpacked(data: bytes) -> bytes:
    try:
        return lzma.decompress(data, lzma.FORMAT_RAW, None, FILTERS)
    except lzma.LZMAError as error:
        raise ImportError(f"the engine's file is damaged: {error}") from error


def begin() -> int:
    """Run the command `engine` from the file that Python has started; returns the exit status of the process."""
    archive = getattr(__spec__ and __spec__.loader, "archive", None)
    if archive is None:
        print("engine.onefile is the first module of engine.pyz, and does nothing by itself", file=sys.stderr)
        return 1
    sys.path[:] = [each for each in sys.path if each != archive]  # else every import would look there first
    ours = OneFile(archive)
    sys.meta_path.insert(0, ours)
    vars(import_module("engine.origin"))["ours"] = ours
    entry = import_module("engine.__main__")
    status: int = entry.daemon() if os.path.basename(sys.argv[0]) == "engined" else entry.main()
    return status


if __name__ == "__main__":
    sys.exit(begin())
