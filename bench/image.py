"""Makes the small image for all engines: busybox and a few of the host's own programs as a root filesystem.

Run in the benchmarks' process. It only reads the host's files, and writes below the given directory. The same programs
give the floor outside of any container, so the engines are compared and not the programs.
"""

import shutil
import subprocess
import tarfile
from pathlib import Path

NAME = "bench-programs:latest"
APPLETS = ("sh", "echo", "true", "sleep")
PROGRAMS = ("yes", "head", "cat")


def make(directory: Path) -> Path:
    """Fill `directory`/rootfs, pack it as `directory`/rootfs.tar, and return the path of the latter.

    The shell is busybox. The bytes of the log cases come from the host's own `yes` and `head`, because busybox's take
    longer to make them than the engine takes for the log. Raises FileNotFoundError without busybox.
    """
    root = directory / "rootfs"
    for name in ("bin", "proc", "dev", "sys", "etc", "tmp"):
        (root / name).mkdir(parents=True)
    _copy(Path(program("busybox")), root, Path("/bin/busybox"))
    for name in APPLETS:
        (root / "bin" / name).symlink_to("busybox")
    for name in PROGRAMS:
        _copy(Path(program(name)), root, Path("/bin") / name)
    packed = directory / "rootfs.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(root, arcname=".")
    return packed


def program(name: str) -> str:
    """The path of one of the host's own programs. Raises FileNotFoundError."""
    found = shutil.which(name)
    if found is None:
        package = "busybox-static" if name == "busybox" else "coreutils"
        raise FileNotFoundError(f"{name} is not installed (Debian package {package})")
    return found


def _copy(source: Path, root: Path, target: Path) -> None:
    shutil.copy(source, root / target.relative_to("/"))
    for library in _libraries(source):
        place = root / library.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)


def _libraries(source: Path) -> list[Path]:
    """The shared libraries and the loader of one of the host's own programs; empty for a static one."""
    answer = subprocess.run(["ldd", source], capture_output=True, text=True, check=False)
    return [Path(word) for line in answer.stdout.splitlines() for word in line.split() if word.startswith("/")]
