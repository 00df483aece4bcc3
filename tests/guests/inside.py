"""Runs in the guest, with its python3 and nothing else: makes the checks of one boot and writes what came of each.

`python3 -m tests.guests.inside RESULTS CHECK ...`, in the tree of the project. A check is a function `check_*` of a
module of this package, named `MODULE.FUNCTION`; it raises AssertionError. It takes a `host` (`Host`), or a `daemon`
without containers (`daemon.Daemon`), or nothing. Its result is a line of JSON in the file RESULTS: the check's name,
the seconds, and the error (empty when all is well).
"""

import importlib
import inspect
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.client.api import Api
from tests.guests import daemon

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0  # seconds: the guest is emulated, and some ten times slower than a machine
SOCKET = "/run/engine.sock"


class Host:
    """The guest as a check uses it: programs, files, and the engine on its default socket."""

    api = Api(SOCKET)

    def run(self, *argv: str, status: int = 0) -> str:
        """Run a program; what it said on both streams. AssertionError for another exit status."""
        done = subprocess.run(
            argv, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert done.returncode == status, f"{' '.join(argv)} ended with {done.returncode}: {done.stdout[-3000:]}"
        return done.stdout

    def engine(self, *argv: str, status: int = 0) -> str:
        """`python3 -m engine ...`."""
        return self.run(sys.executable, "-m", "engine", *argv, status=status)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Ask again until the answer is true; that answer."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, f"not within {PATIENCE:.0f} s"
            time.sleep(0.1)
        return found

    @contextmanager
    def daemon(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """A daemon of its own on the default socket and roots, ended in order at the end."""
        log = Path("/run/engine-test.log")
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "engine", "daemon", *options], cwd=PROJECT, stdout=file, stderr=file
            )
        try:
            self.until(lambda: process.poll() is not None or self.answers())
            assert process.poll() is None, log.read_text()[-3000:]
            yield process
        finally:
            process.terminate()
            process.wait()

    def answers(self) -> bool:
        """Whether a daemon is there."""
        try:
            with self.api.open("GET", "/_ping") as response:
                return response.status == 200
        except Exception:
            return False

    def ask(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """The answer of the API, parsed where it is JSON. Raises ApiError."""
        with self.api.open(method, path, query, json_body=body) as response:
            text = response.read()
        return json.loads(text) if text[:1] in (b"{", b"[") else text

    def image(self) -> None:
        """The image `busybox`, made of this guest's own."""
        if not self.ask("GET", "/images/json"):
            self.engine("image-from-host", "busybox:latest", "busybox")

    def begin(self, *argv: str, name: str = "", **body: Any) -> str:
        """Create and start a container of busybox; its id."""
        self.image()
        query = {"name": name} if name else {}
        made = self.ask("POST", "/containers/create", {"Image": "busybox", "Cmd": list(argv), **body}, **query)
        assert isinstance(made, dict)
        self.ask("POST", f"/containers/{made['Id']}/start")
        return str(made["Id"])

    def inspect(self, one: str) -> Any:
        """What inspect says of it."""
        return self.ask("GET", f"/containers/{one}/json")

    def wait(self, one: str) -> int:
        """The exit code."""
        return int(self.ask("POST", f"/containers/{one}/wait")["StatusCode"])

    def remove(self, *ones: str) -> None:
        """Remove containers, running or not."""
        for one in ones:
            self.ask("DELETE", f"/containers/{one}", force=True)

    def execute(self, one: str, *argv: str) -> tuple[int, str]:
        """The exit code of a command in a running container, and what it said."""
        made = self.ask("POST", f"/containers/{one}/exec", {"Cmd": list(argv), "AttachStdout": True, "Tty": True})
        said = self.ask("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": True})
        code = self.until(lambda: self.ask("GET", f"/exec/{made['Id']}/json")["ExitCode"] is not None)
        assert code
        return self.ask("GET", f"/exec/{made['Id']}/json")["ExitCode"], bytes(said).decode(errors="replace")


def read(path: str) -> str:
    """The text of a file, without its last line end."""
    return Path(path).read_text().rstrip("\n")


def main(results: str, names: list[str]) -> None:
    """Make the checks one after the other."""
    host = Host()
    with open(results, "a", encoding="utf-8") as file:
        for name in names:
            began = time.monotonic()
            error = outcome(name, host)
            line = {"check": name, "seconds": round(time.monotonic() - began, 1), "error": error}
            print(json.dumps(line), file=file, flush=True)
            os.fsync(file.fileno())


def outcome(name: str, host: Host) -> str:
    """Make one check; the trace of its failure, empty when all is well."""
    module, _, function = name.rpartition(".")
    try:
        check = getattr(importlib.import_module(f"tests.guests.{module}"), function)
        wanted = inspect.signature(check).parameters
        if "daemon" in wanted:
            with daemon.Daemon() as one:
                check(one)
        else:
            check(*[host] if wanted else [])
    except BaseException:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
