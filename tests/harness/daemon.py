"""One engine daemon under test: started, killed and asked over its socket; the fixtures build on it.

Run by the test process. A daemon lives in namespaces of its own (see `namespaces`), below one short directory (a Unix
socket's path has 108 bytes), and every answer to `Daemon.request` is checked against the API's definition.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from tests.harness import frames, rootfs, schema
from tests.harness.http import Answer, Connection
from tests.harness.namespaces import Namespaces
from tests.harness.pace import patient

PROJECT = Path(__file__).resolve().parents[2]
# Which muxer the daemons have whose test does not choose; empty: what a daemon chooses by itself.
MUXER = os.environ.get("ENGINE_TEST_MUXER", "")
# Which Python runs the daemons: that of the tests, or one of another C library.
PYTHON = os.environ.get("ENGINE_TEST_PYTHON") or sys.executable
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class Output(NamedTuple):
    """What one container did from start to end."""

    status: int
    stdout: bytes
    stderr: bytes


class Daemon:
    """`python -m engine daemon` with its own socket and roots below `root`; program: the module that is run."""

    program = "engine"

    def __init__(self, root: Path, namespaces: Namespaces, options: Sequence[str] = (), log_level: str = "debug"):
        self.root = root
        self.namespaces = namespaces
        self.options = tuple(options)
        self.log_level = log_level
        self.socket = root / "s"
        self.data_root = root / "data"
        self.exec_root = root / "exec"
        self.pidfile = root / "pid"
        self.log_file = root / "log"
        self.process: subprocess.Popen | None = None
        root.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        """For DOCKER_HOST and ENGINE_HOST."""
        return f"unix://{self.socket}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment for a client of this daemon, or for `python -m engine`."""
        return {**os.environ, "DOCKER_HOST": self.url, "ENGINE_HOST": self.url, "PYTHONPATH": str(PROJECT)}

    @property
    def log(self) -> str:
        """All that the daemon has logged, over all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def logged(self) -> list[str]:
        """The lines of its log, without those that a user's daemon writes before it has a log."""
        return list(dropwhile(lambda line: line.startswith("engine daemon:"), self.log.splitlines()))

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self.process is not None, "the daemon was not started"
        return self.process.pid

    def arguments(self) -> list[str]:
        """The daemon's command line."""
        return [
            PYTHON,
            "-m",
            self.program,
            "daemon",
            "--host",
            self.url,
            "--data-root",
            str(self.data_root),
            "--exec-root",
            str(self.exec_root),
            "--pidfile",
            str(self.pidfile),
            "--log-level",
            self.log_level,
            *(("--muxer", MUXER) if MUXER and "--muxer" not in self.options else ()),
            *self.options,
        ]

    def copies_layers(self) -> None:
        """Before its first start: let it find a data root that can carry no overlay."""
        self.data_root.mkdir(mode=0o711)
        (self.data_root / "storage").write_text("copy\n")

    def start(self, wait: bool = True) -> "Daemon":
        """Start the process and, with `wait`, see its first pong; one that does not come ends the process."""
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                self.namespaces.command(self.arguments()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        if wait:
            try:
                self.wait_until_ready()
            except BaseException:
                if self.process.poll() is None:
                    self.kill9()
                raise
        return self

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        """Return when /_ping answers; AssertionError with the log when the process ends first or time is up."""
        end = time.monotonic() + patient(seconds)
        while True:
            assert self.process.poll() is None, f"the daemon ended with {self.process.returncode}:\n{self.log[-4000:]}"
            assert time.monotonic() < end, f"no pong after {seconds} s:\n{self.log[-4000:]}"
            try:
                with Connection(self.socket, timeout=5) as connection:
                    if connection.request("GET", "/_ping").status == 200:
                        return
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, EOFError, TimeoutError):
                time.sleep(0.005)  # the listener is not there yet, and there is no event for "it is"

    def kill9(self) -> None:
        """End the daemon, and only it, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """End the daemon in order (SIGTERM); its exit status. Containers go on."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(patient(seconds))
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"the daemon did not end {seconds} s after SIGTERM:\n{self.log[-4000:]}") from None
        self.process = None
        return status

    def restart(self) -> None:
        """Stop in order and start again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Remove every container and every network, and stop; used by the fixtures at the end."""
        if self.process is None:
            self.start()
        for container in self.request("GET", "/containers/json?all=1").json():
            self.remove(container["Id"])
        networks = self.request("GET", "/networks", checked=False)
        for network in networks.json() if networks.status == 200 else ():
            if network["Name"] not in ("bridge", "host", "none"):
                answer = self.request("DELETE", f"/networks/{network['Id']}")
                assert answer.status == 204, answer
        status = self.stop()
        assert status == 0, f"the daemon did not end in order, but with {status}"

    def connection(self, timeout: float = 30.0) -> Connection:
        """A new connection to the socket."""
        return Connection(self.socket, timeout)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30.0,
        checked: bool = True,
    ) -> Answer:
        """One call on a connection of its own; with `checked` the answer is held against the API's definition.

        No refusal has the words of Python for a failed system call.
        """
        with self.connection(timeout) as connection:
            answer = connection.request(method, path, body, headers)
        if checked:
            schema.check(method, path, answer)
        assert answer.status < 400 or b"[Errno " not in answer.body, answer
        return answer

    def command(self, *argv: str, timeout: float = 60.0, **options: object) -> subprocess.CompletedProcess:
        """Run a client (docker, curl, `python -m engine`, ...) against this daemon; output as bytes."""
        return subprocess.run(argv, env=self.environment, capture_output=True, timeout=patient(timeout), **options)

    def import_image(self, archive: bytes, name: str, changes: Sequence[str] = ()) -> str:
        """Import a root filesystem's tar as `name`; the image's id."""
        repository, _, tag = name.partition(":")
        query = f"fromSrc=-&repo={repository}&tag={tag or 'latest'}"
        query += "".join(f"&changes={quote(line)}" for line in changes)
        answer = self.request("POST", f"/images/create?{query}", archive, {"Content-Type": "application/x-tar"})
        assert answer.status == 200 and "error" not in answer.lines[-1], answer
        return answer.lines[-1]["status"]

    def import_busybox(self) -> str:
        """Make `busybox:latest` from the host's static busybox; the image's id."""
        return self.import_image(rootfs.busybox(), "busybox:latest", rootfs.CHANGES)

    def create(self, *argv: str, name: str = "", **body: object) -> str:
        """Create a container of busybox (or `Image=`) that runs `argv`; its id."""
        whole = {"Image": "busybox", "HostConfig": {"NetworkMode": "none"}, **body}
        if argv:
            whole["Cmd"] = list(argv)
        query = f"?name={name}" if name else ""
        answer = self.request("POST", f"/containers/create{query}", whole)
        assert answer.status == 201, answer
        return answer.json()["Id"]

    def begin(self, container: str) -> None:
        """Start a container."""
        answer = self.request("POST", f"/containers/{container}/start")
        assert answer.status == 204, answer

    def wait(self, container: str, condition: str = "", timeout: float = 60.0) -> int:
        """Wait for a container's end; its exit status."""
        query = f"?condition={condition}" if condition else ""
        answer = self.request("POST", f"/containers/{container}/wait{query}", timeout=timeout)
        assert answer.status == 200, answer
        return answer.json()["StatusCode"]

    def logs(self, container: str, query: str = "stdout=1&stderr=1") -> bytes:
        """A container's log, in frames (raw for a terminal)."""
        answer = self.request("GET", f"/containers/{container}/logs?{query}")
        assert answer.status == 200, answer
        return answer.body

    def put_file(self, container: str, name: str, content: bytes = b"") -> None:
        """Put a file into a container's root directory: for who waits for it inside."""
        body = rootfs.archive([(name, 0o644, content)])
        headers = {"Content-Type": "application/x-tar"}
        answer = self.request("PUT", f"/containers/{container}/archive?path=/", body, headers)
        assert answer.status == 200, answer

    def inspect(self, container: str) -> dict:
        """What the API says about a container."""
        answer = self.request("GET", f"/containers/{container}/json")
        assert answer.status == 200, answer
        return answer.json()

    def remove(self, container: str, force: bool = True) -> None:
        """Remove a container; one that is being removed already, or gone, is fine."""
        answer = self.request("DELETE", f"/containers/{container}?force={int(force)}&v=1")
        assert answer.status in (204, 404, 409), answer

    def run(self, *argv: str, **body: object) -> Output:
        """create, start, wait, logs, remove: what the container said and its exit status."""
        container = self.create(*argv, name=f"t-{uuid.uuid4().hex[:12]}", **body)
        try:
            self.begin(container)
            status = self.wait(container)
            log = self.logs(container)
        finally:
            self.remove(container)
        if body.get("Tty"):
            return Output(status, log, b"")
        return Output(status, frames.stdout(log), frames.stderr(log))

    def shell(self, script: str, **body: object) -> str:
        """Run `sh -c script`, which must succeed silently on stderr; its standard output, stripped."""
        output = self.run("sh", "-c", script, **body)
        assert output.status == 0 and not output.stderr, output
        return output.stdout.decode().strip()
