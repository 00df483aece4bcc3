"""Names, verbs and files completed by zsh and fish themselves, at a terminal, with what `engine completion` writes."""

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.clients.cli import said
from tests.harness.pace import patient
from tests.harness.unpacked import installed

pytestmark = [pytest.mark.seldom, pytest.mark.root]
NAME = f"own-{uuid.uuid4().hex[:12]}"
# A line, and what the shell makes of it when it is to complete it.
LINES = (
    ("engine netw", "engine network "),
    (f"engine rm {NAME[:9]}", f"engine rm {NAME} "),
    (f"engine stop {NAME[:9]}", f"engine stop {NAME[:9]}"),  # it does not run
    (f"engine cp {NAME[:9]}", f"engine cp {NAME}:"),
    ("engine network inspect brid", "engine network inspect bridge "),
    ("engine run busybox:l", "engine run busybox:latest "),
    ("engine run --network=brid", "engine run --network=bridge "),
    ("engine save -o scr", "engine save -o script "),
)
SECONDS = patient(30.0)


@pytest.fixture
def place(engine, tmp_path) -> Iterator[Callable[[str], str]]:
    """A directory with the command `engine` and a container's name to complete; makes a shell's script there."""
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m engine "$@"\n')
    program.chmod(0o755)

    def script(shell: str) -> str:
        if shutil.which(shell) is None:
            pytest.skip(f"needs {shell}")
        (tmp_path / "script").write_text(said(engine("completion", shell)))
        return str(tmp_path)

    said(engine("create", "--name", NAME, "busybox"))
    yield script
    said(engine("rm", NAME))


def environment(engine, directory: str) -> dict[str, str]:
    """That of somebody who has the command on the PATH, and no settings of the shell."""
    own = {"PATH": f"{directory}:{os.environ['PATH']}", "HOME": directory, "ZDOTDIR": directory, "TERM": "dumb"}
    return engine.environment | own


def test_fish_completes(engine, place) -> None:
    directory = place("fish")
    asked = " ".join(f"(complete -C '{line}' | string split -f1 \\t | string join ,)" for line, _ in LINES)
    command = installed(["fish", "--private", "-c", f"source script; string join -- \\n {asked}"])
    done = subprocess.run(
        command, env=environment(engine, directory), cwd=directory, capture_output=True, text=True, timeout=SECONDS * 2
    )
    assert done.stderr == ""
    # It gives the candidates for the last word; of none of them there is no line.
    wanted = [whole.split(" ", line.count(" "))[-1].strip() for line, whole in LINES if whole != line]
    assert done.stdout.splitlines() == wanted


class Shell:
    """zsh at a terminal of its own."""

    def __init__(self, environment: dict[str, str], directory: str) -> None:
        command = installed(["zsh", "-f", "-i"])
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(command[0], command, environment)

    def until(self, pattern: str) -> str:
        """What it shows, up to the first place that matches."""
        shown, end = "", time.monotonic() + SECONDS
        os.set_blocking(self.terminal, False)
        while not re.search(pattern, shown):
            assert time.monotonic() < end, shown
            with contextlib.suppress(BlockingIOError):
                shown += os.read(self.terminal, 65536).decode(errors="replace")
            time.sleep(0.01)
        return shown

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self.terminal, keys.encode())

    def close(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


def test_zsh_completes(engine, place) -> None:
    """A line is completed, and then shown by the key that quotes it: behind that stands a mark of the test's."""
    directory = place("zsh")
    shell = Shell(environment(engine, directory), directory)
    try:
        shell.type("PS1='> '; autoload -U compinit; compinit -u -D; source script; unsetopt beep list_beep\n")
        shell.type(
            "show() { print; print -r -- \"<$BUFFER>\"; BUFFER= }; zle -N show; bindkey '^G' show; echo be''gun\n"
        )
        shell.until("begun")
        for line, whole in LINES:
            shell.type(f"{line}\t\x07")
            assert re.search("<(.*)>", shell.until("<.*>"))[1] == whole
    finally:
        shell.close()
