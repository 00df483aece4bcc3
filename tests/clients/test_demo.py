"""`python3 -m engine demo`, as a user starts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.root
def test_the_demo_shows_the_flow_in_80_columns_and_leaves_nothing(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DOCKER_HOST": "tcp://nobody:1"}
    result = subprocess.run(
        [sys.executable, "-m", "engine", "demo"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result
    assert max(map(len, result.stdout.splitlines())) <= 80
    for shown in ("> POST /images/create?", "> POST /containers/create", "/start", "/wait", "/logs?stdout=1"):
        assert shown in result.stdout
    assert '"StatusCode": 0' in result.stdout
    assert "stream 1: hello from a container" in result.stdout
    assert list(tmp_path.iterdir()) == []
