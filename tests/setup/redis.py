"""A real Redis as a root filesystem: Debian's packages of it, unpacked below the cache with the libraries they need.

Run by the set-up on Debian. Nothing is installed, so no server is started on this machine.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGES = ("redis-server", "redis-tools")
ONLY = ("Depends", "PreDepends")
DOWNLOAD = ("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download")  # its own user may not write here
# What a container does without: documents, units, settings, other character sets.
NOT_NEEDED = ("usr/share", "lib/systemd", "usr/lib/systemd", "etc", "var", "usr/lib/*/gconv")
# Where the loader of programs is looked for, when Debian has it below /usr only.
MERGED = ("lib", "lib64")
DEPENDENCY = re.compile(r"^ +\|?(\w+): (\S+)$")


def place(cache: Path) -> Path:
    """Where the root filesystem is."""
    return cache / "redis"


def complete(cache: Path) -> bool:
    """Whether it is there: the directory has its name only when everything is in it."""
    return place(cache).is_dir()


def dependencies(listing: str) -> dict[str, list[str]]:
    """What `apt-cache depends` says: package → what it depends on."""
    found: dict[str, list[str]] = {}
    package = ""
    for line in listing.splitlines():
        match = DEPENDENCY.match(line)
        if match is None and not line.startswith(" "):
            package = line.strip()
            found.setdefault(package, [])
        elif match is not None and match[1] in ONLY:
            found[package].append(match[2])
    return found


def needed(graph: dict[str, list[str]]) -> list[str]:
    """The packages, and all libraries that lie on the way from them; other programs are left out."""
    found, waiting = set(), list(PACKAGES)
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += [name for name in graph.get(package, ()) if name.startswith("lib")]
    return sorted(found)


def make(cache: Path) -> None:
    """Download and unpack it; CalledProcessError with apt's own words on stderr."""
    cache.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(
        ["apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", *PACKAGES],
        check=True,
        capture_output=True,
        text=True,
    )
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        root = Path(scratch, "root")
        packages = needed(dependencies(listed.stdout))
        subprocess.run([*DOWNLOAD, *packages], check=True, cwd=scratch, stdout=subprocess.DEVNULL)
        for archive in sorted(Path(scratch).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", archive, root], check=True)
        for path in [path for pattern in NOT_NEEDED for path in root.glob(pattern)]:
            shutil.rmtree(path)
        for name in MERGED:
            if not (root / name).exists() and (root / "usr" / name).exists():
                (root / name).symlink_to(f"usr/{name}")
        shutil.rmtree(place(cache), ignore_errors=True)
        root.rename(place(cache))
