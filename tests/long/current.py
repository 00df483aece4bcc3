"""The jobs `dockerd` and `buildkit`: a current one is built once, and `tests.comparison` puts this engine beside it.

They take root on Debian. The builds take half an hour on two processors; they are kept below the cache.
"""

import subprocess
import sys
from collections.abc import Iterable

from tests.__main__ import CACHE, apt
from tests.setup import buildctl, dockerd
from tests.setup.golang import Programs

# Each job: what it needs, and the module that compares.
JOBS: dict[str, tuple[tuple[Programs, ...], str]] = {
    "dockerd": (dockerd.PARTS, "tests.comparison.run"),
    "buildkit": ((dockerd.RUNC, buildctl.PROGRAMS, buildctl.DAEMON), "tests.comparison.builds.run"),
}


def build(parts: Iterable[Programs]) -> None:
    """What is not there yet, one part after the other; RuntimeError with the builder's words."""
    for part in parts:
        if part.complete(CACHE):
            continue
        if reason := part.unable():
            raise RuntimeError(f"{part.names[0]} cannot be built: {reason}")
        if part is dockerd.RUNC:
            apt("install", "--no-install-recommends", dockerd.HEADERS)
        print(f"tests.long: building {', '.join(part.names)}, which takes some minutes", flush=True)
        with part.building(CACHE) as finish:
            if reason := finish():
                raise RuntimeError(reason)


def run(job: str) -> int:
    """Build, compare; the exit status."""
    parts, module = JOBS[job]
    build(parts)
    return subprocess.run([sys.executable, "-m", module]).returncode
