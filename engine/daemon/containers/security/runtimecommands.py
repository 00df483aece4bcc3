"""Calls the program of a runtime on a container that has a kernel of its own: signals, and what it says of processes.

Runs in the daemon's threads; loaded by the first call. How the program is called is said by `apart.of`.
"""

import json
import os
import signal
import subprocess

from engine.errors import SystemFailure
from engine.kernel import reasons
from engine.literals import natural

_SECONDS = 30.0
_LONGEST = 1000
_LAST_PID = 2**31 - 1
_PATH = os.environ.get("PATH") or os.defpath
_EXEC = "exec."  # see `birth.joinviaruntime`


def call(runtime: tuple[str, ...], command: str, *words: str) -> bytes:
    """Run a command of the runtime on its container; returns what it prints.

    words: come behind the container's name. Raises SystemFailure.
    """
    bundle, program, *arguments = runtime
    line = [program, *arguments, "--root", os.path.join(bundle, "state"), command]
    options = [word for word in words if word.startswith("--")]
    others = [word for word in words if not word.startswith("--")]
    line += [*options, os.path.basename(bundle), *others]
    try:
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, env={"PATH": _PATH}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemFailure(f"{os.path.basename(program)} {command}: {reasons.whole(error)}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        raise SystemFailure(f"{os.path.basename(program)} {command}: {said[-_LONGEST:]}")
    return done.stdout


def pause(runtime: tuple[str, ...]) -> None:
    """Stop the container's processes where they are, if they run. Raises SystemFailure."""
    if not _is_paused(runtime):
        call(runtime, "pause")


def resume(runtime: tuple[str, ...]) -> None:
    """Let the processes of a paused container go on. Raises SystemFailure."""
    if _is_paused(runtime):
        call(runtime, "resume")


def _is_paused(runtime: tuple[str, ...]) -> bool:
    return bool(json.loads(call(runtime, "state"))["status"] == "paused")


def kill(runtime: tuple[str, ...], number: int) -> None:
    """Send a signal to the container's process 1. Raises SystemFailure."""
    call(runtime, "kill", str(number))


def kill_exec(runtime: tuple[str, ...], pid: int) -> None:
    """Kill the process of an exec, which the runtime's program with this pid of the host runs. Raises SystemFailure."""
    try:
        with open(os.path.join(runtime[0], f"{_EXEC}{pid}")) as file:
            inside = natural(file.read().strip(), _LAST_PID)
    except FileNotFoundError:
        return
    call(runtime, "kill", f"--pid={inside}", str(signal.SIGKILL.value))


def forget_exec(runtime: tuple[str, ...], pid: int) -> None:
    """Remove what is known of an exec that has ended."""
    try:
        os.unlink(os.path.join(runtime[0], f"{_EXEC}{pid}"))
    except FileNotFoundError:
        pass  # the container has ended too
