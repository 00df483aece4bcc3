"""The sources that tests of policies build from: a web server and a git server in the daemon's network."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import web
from tests.harness.daemon import Daemon
from tests.harness.gitserver import GitServer, serving

DATA = b"of the server\n"
SUM = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@pytest.fixture
def pages(daemon: Daemon, world: Any) -> Iterator[str]:
    served = {"/file": (200, {}, DATA), "/other": (200, {}, b"another\n"), "/dockerfile": (200, {}, b"FROM scratch\n")}
    with web.serving(served, world.namespaces.socket()) as url:
        yield url


@pytest.fixture
def server(daemon: Daemon, world: Any, tmp_path: Path) -> Iterator[GitServer]:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    with serving(tmp_path, world.namespaces.socket()) as served:
        yield served
