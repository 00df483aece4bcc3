"""The search for what a session of tests leaves behind."""

import os
import signal
import subprocess
import uuid
from pathlib import Path

from tests.harness.leaks import TOKEN_VARIABLE, Watch


def test_a_process_that_a_session_has_left_is_told_and_ended(tmp_path: Path) -> None:
    """That of another session is neither."""
    watch = Watch(uuid.uuid4().hex, tmp_path)
    left, other = (
        subprocess.Popen(["sleep", "1000"], env={**os.environ, TOKEN_VARIABLE: token})
        for token in (watch.token, uuid.uuid4().hex)
    )
    try:
        assert watch.found() == [f"process {left.pid}: sleep 1000"]
        watch.end()
        assert left.wait(10) == -signal.SIGKILL
        assert watch.found() == []
        assert other.poll() is None
    finally:
        for each in (left, other):
            each.kill()
            each.wait()
