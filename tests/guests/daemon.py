"""A daemon of the engine on the guest itself, with roots of its own, and what the checks ask of it.

Needs nothing but Python's standard library and the busybox of the guest: there is no pytest in there. Whoever makes a
`Daemon` closes it, which removes its containers and its files.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

IMAGE = "busybox:latest"
CGROUPS = Path("/sys/fs/cgroup")
_PLACE = "/var/tmp"
_SECONDS = 60.0


def until(true: Callable[[], object], what: str, seconds: float = _SECONDS) -> None:
    """Wait for a condition."""
    latest = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < latest, f"not within {seconds} seconds: {what}"
        time.sleep(0.02)


def systemctl(*words: str) -> str:
    """What a command of systemctl prints; it has to succeed."""
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout


def scopes() -> list[str]:
    """The scopes of containers that systemd knows, whatever their state."""
    listed = systemctl("list-units", "--all", "--full", "--plain", "--no-legend", "engine-*.scope")
    return [line.split()[0] for line in listed.splitlines()]


class Daemon:
    """A daemon and its API."""

    def __init__(self, *options: str) -> None:
        """Start a daemon with these options, and make the image busybox:latest."""
        self.place = Path(_PLACE, f"engine-{os.getpid()}-{time.monotonic_ns()}")
        self.place.mkdir()
        self.socket = f"{self.place}/s"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start(*options)
            self.engine("image-from-host", IMAGE, "busybox")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Daemon":
        """Return the daemon itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it and what it has made."""
        self.close()

    @property
    def log(self) -> str:
        """What it has logged, also before it was started anew."""
        return (self.place / "log").read_text()

    def start(self, *options: str) -> None:
        """Start it, again with the same roots, and wait until it answers."""
        roots = ("--data-root", f"{self.place}/data", "--exec-root", f"{self.place}/run")
        words = ("--host", f"unix://{self.socket}", "--pidfile", f"{self.place}/pid", "--config-file", "/dev/null")
        with open(f"{self.place}/log", "ab") as log:
            command = [sys.executable, "-m", "engine", "daemon", *roots, *words, *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until(self._answers, "the daemon answers")

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log
        try:
            return self.ask("GET", "/_ping", raw=True) == b"OK"
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, or kill it; its containers run on."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(_SECONDS)

    def again(self, *options: str, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop or kill it, and start it with these options."""
        self.stop(how)
        self.start(*options)

    def clear(self) -> None:
        """Remove its containers and forget its log; start it, if it was stopped."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        for container in self.ask("GET", "/containers/json?all=1"):
            self.remove(container["Id"])
        os.truncate(f"{self.place}/log", 0)

    def close(self) -> None:
        """Remove the containers, stop the daemon, and remove its files."""
        try:
            if self._process is not None and self._process.poll() is None:
                self.clear()
        finally:
            self.stop()
            shutil.rmtree(self.place, ignore_errors=True)

    def engine(self, *words: str) -> str:
        """What a verb of the engine's own client prints."""
        given = {**os.environ, "ENGINE_HOST": f"unix://{self.socket}"}
        done = subprocess.run([sys.executable, "-m", "engine", *words], env=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, method: str, path: str, body: object = None, *, wrong: int = 0, raw: bool = False) -> object:
        """The answer of the API, decoded unless it is to be `raw`; it is the words of an error with status `wrong`."""
        connection = _Connection(self.socket)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if wrong:
            assert answer.status == wrong, f"{method} {path}: {answer.status} instead of {wrong}: {data[:500]!r}"
            return json.loads(data)["message"]
        assert answer.status < 400, f"{method} {path}: {answer.status}: {data[:500]!r}"
        return data if raw or not data else json.loads(data)

    def create(self, *argv: str, **host_config: object) -> str:
        """The id of a new container that runs this command."""
        body = {"Image": IMAGE, "Cmd": list(argv), "HostConfig": {"NetworkMode": "none", **host_config}}
        return self.ask("POST", "/containers/create", body)["Id"]

    def run(self, *argv: str, **host_config: object) -> str:
        """The id of a new container that was started."""
        made = self.create(*(argv or ("sleep", "1000")), **host_config)
        self.ask("POST", f"/containers/{made}/start")
        return made

    def wait(self, container: str) -> int:
        """The exit code of a container's end."""
        return self.ask("POST", f"/containers/{container}/wait")["StatusCode"]

    def state(self, container: str) -> dict:
        """The state of a container."""
        return self.ask("GET", f"/containers/{container}/json")["State"]

    def stats(self, container: str) -> dict:
        """The present figures of a container."""
        return self.ask("GET", f"/containers/{container}/stats?stream=0&one-shot=1")

    def remove(self, container: str) -> None:
        """Kill and remove a container."""
        self.ask("DELETE", f"/containers/{container}?force=1")

    def exec(self, container: str, *argv: str) -> tuple[int, str]:
        """The exit code and the output of a further command in a container."""
        asked = {"Cmd": list(argv), "AttachStdout": True, "AttachStderr": True, "Tty": True}
        made = self.ask("POST", f"/containers/{container}/exec", asked)["Id"]
        text = self.ask("POST", f"/exec/{made}/start", {"Tty": True}, raw=True)
        until(lambda: not self.ask("GET", f"/exec/{made}/json")["Running"], "the exec has ended")
        return self.ask("GET", f"/exec/{made}/json")["ExitCode"], text.decode()

    def cgroup(self, container: str) -> Path:
        """The directory of the cgroup in which the container's process 1 is."""
        text = Path(f"/proc/{self.state(container)['Pid']}/cgroup").read_text().strip()
        return CGROUPS / text.removeprefix("0::").lstrip("/")


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)
