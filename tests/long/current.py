"""The job `dockerd`: a current dockerd is built once, and `tests.comparison` puts this engine beside it.

It takes root on Debian. The build takes half an hour on two processors; it is kept below the cache.
"""

import subprocess
import sys

from tests.__main__ import CACHE, apt
from tests.setup import dockerd

NAME = "dockerd"


def build() -> None:
    """What is not there yet, one part after the other; RuntimeError with the builder's words."""
    for part in dockerd.PARTS:
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


def run() -> int:
    """Build, compare; the exit status."""
    build()
    return subprocess.run([sys.executable, "-m", "tests.comparison.run"]).returncode
