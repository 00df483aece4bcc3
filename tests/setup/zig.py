"""Zig, whose C compiler is one for every machine and C library: what wheels for others are made with.

Run by the set-up: pip puts the package `ziglang`, which is that compiler, below the cache, beside no other package. It
is no requirement of the tests' environment, since it is four times as large as that.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

VERSION = "0.13.0"


def place(cache: Path) -> Path:
    """The directory that is to stand in PYTHONPATH."""
    return cache / f"zig-{VERSION}"


def complete(cache: Path) -> bool:
    """Whether it is there: the directory has its name only when everything is in it."""
    return place(cache).is_dir()


def variables(cache: Path) -> dict[str, str]:
    """The environment of `python -m ziglang`; it keeps what it has compiled of the C libraries."""
    kept = str(cache / "zig-kept")
    return {"PYTHONPATH": str(place(cache)), "ZIG_GLOBAL_CACHE_DIR": kept, "ZIG_LOCAL_CACHE_DIR": kept}


def make(cache: Path, python: Path) -> str:
    """Download it; what went wrong, in words, if anything."""
    made = Path(tempfile.mkdtemp(dir=cache, prefix="zig-"))
    try:
        words = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", made)
        done = subprocess.run([python, *words, f"ziglang=={VERSION}"], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()[-2000:]
        made.rename(place(cache))
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return ""
