"""What a daemon has while it is asked: containers, an exec, an image, a volume and a network; made anew when gone.

Run by the test process, on one connection that is kept. Names of what stands are filled into requests.
"""

import itertools

from tests.chaos.generating import Asked
from tests.harness.daemon import Daemon
from tests.harness.http import Answer, Connection

RUNS = ["sleep", "86400"]
ENDS = ["echo", "said"]
# After so many changes to a running container there is a new one: no limit that it was given holds for the others.
CHANGES = 20


class Standing:
    """The things of one daemon, by the names of `generating.STANDING`."""

    def __init__(self, daemon: Daemon, seconds: float) -> None:
        self._daemon = daemon
        self._seconds = seconds
        self._connection: Connection | None = None
        self._numbers = itertools.count()
        self._names: dict[str, str] = {"volume": "kept", "network": "kept"}
        self.renew("all")

    def connected(self) -> Connection:
        """The connection, a new one if need be."""
        if self._connection is None:
            self._connection = self._daemon.connection(self._seconds)
        return self._connection

    def hang_up(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """An ordinary call."""
        try:
            answer = self.connected().request(method, path, body)
        except BaseException:
            self.hang_up()
            raise
        if answer.headers.get("connection", "").lower() == "close":
            self.hang_up()
        return answer

    def knows_filter(self, asked: Asked) -> bool:
        """Whether the daemon takes the filter of a request, which is not made where it would change anything."""
        if asked.method != "GET":
            return True
        answer = self.call("GET", self.filled(asked.target))
        return answer.status != 400 or b"invalid filter '" not in answer.body

    def filled(self, text: str) -> str:
        """Names of what there is in the place of `{running}` and the like, and a new one for `{new}`."""
        if "{" in text:
            for name, value in self._names.items():
                text = text.replace(f"{{{name}}}", value)
            text = text.replace("{new}", f"made{next(self._numbers)}")
        return text

    def renew(self, kind: str) -> None:
        """Make what is gone or is another now; kind: the first part of the path of what may have changed it."""
        if kind in ("images", "commit", "build", "all") and self.call("GET", "/images/busybox/json").status != 200:
            self._daemon.import_busybox()
        if kind in ("containers", "exec", "networks", "all"):
            self._renew_containers()
        for what in ("volumes", "networks"):
            if kind in (what, "all") and self.call("GET", f"/{what}/kept").status != 200:
                assert self.call("POST", f"/{what}/create", {"Name": "kept"}).status == 201

    def _renew_containers(self) -> None:
        if next(self._numbers) % CHANGES == 0 or self._status("running") != "running":
            self._replace("running", RUNS)
        if self._status("stopped") != "exited":
            self._replace("stopped", ENDS)
            assert self.call("POST", f"/containers/{self._names['stopped']}/wait").status == 200
        execs = f"/containers/{self._names['running']}/exec"
        self._names["exec"] = self.call("POST", execs, {"Cmd": ["true"]}).json()["Id"]

    def _status(self, name: str) -> str:
        answer = self.call("GET", f"/containers/{self._names.get(name, 'none')}/json")
        return answer.json()["State"]["Status"] if answer.status == 200 else "none"

    def _replace(self, name: str, argv: list[str]) -> None:
        if name in self._names:
            self.call("DELETE", f"/containers/{self._names.pop(name)}?force=1&v=1")
        # A shell that has no trap yet would let a stop wait for as long as a request likes.
        body = {"Image": "busybox", "Cmd": argv, "StopSignal": "KILL", "HostConfig": {"NetworkMode": "none"}}
        answer = self.call("POST", "/containers/create", body)
        if answer.status == 404:
            self._daemon.import_busybox()
            answer = self.call("POST", "/containers/create", body)
        self._names[name] = answer.json()["Id"]
        assert self.call("POST", f"/containers/{self._names[name]}/start").status == 204
