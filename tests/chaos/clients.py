"""The nine clients of the kills: each has its own kind of work, and holds the engine to every promise it was given.

A promise is an answer: what was created is there until it is removed, what was removed is gone, a container that ran
has all of its output and its own exit code. What a kill leaves in doubt, a client finds out by looking, and goes on
from there. Only who lost its monitor may have lost something: its exit code, and what it had not said yet.

Each client is a class with `turn`, which does its work once and cleans up; its thread repeats that.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import ClassVar

from tests.api import building
from tests.chaos.caller import PATIENCE, Caller
from tests.chaos.killing import Record
from tests.harness import frames, rootfs
from tests.harness.daemon import Daemon
from tests.harness.hosts import ask
from tests.harness.http import Answer

# dockerd's and this engine's words for an end whose monitor is gone, or that was killed with it.
LOST = (255, 137)
TAR = {"Content-Type": "application/x-tar"}


class Client:
    """What all of them can do: make a container, start it, hear of its end, take it away."""

    kind: ClassVar[str]

    def __init__(self, daemon: Daemon, record: Record, source: random.Random) -> None:
        self.caller = Caller(daemon, record)
        self.record = record
        self.source = source
        self.machine = daemon.namespaces
        self.turns = 0

    def turn(self) -> None:
        """Do the work once."""
        raise AssertionError("each kind of client has its own")

    def name(self) -> str:
        """One that nobody had before."""
        return f"{self.kind}-{uuid.uuid4().hex[:12]}"

    def make(self, what: str, target: str, body: object, find: str) -> str:
        """Create something with a name; its id. what: for a failure's text; find: the path where it is looked for."""
        while True:
            answer = self.caller.ask("POST", target, body)
            if answer is not None and answer.status != 409:
                assert answer.status == 201, (what, answer)
                made = answer.json()
                return made.get("Id") or made["Name"]
            # In doubt, or there since a call that was in doubt.
            found = self.caller.look(find)
            if found.status == 200:
                made = found.json()
                return made.get("Id") or made["Name"]
            assert answer is None, (what, answer)

    def container(self, *argv: str, name: str = "", **body: object) -> str:
        """Create one; its id."""
        name = name or self.name()
        whole = {"Image": "busybox", "Cmd": list(argv), "HostConfig": {"NetworkMode": "none"}, **body}
        return self.make("container", f"/containers/create?name={name}", whole, f"/containers/{name}/json")

    def state(self, container: str) -> dict:
        """Of a container that is there."""
        answer = self.caller.look(f"/containers/{container}/json")
        assert answer.status == 200, (container, answer)
        return answer.json()["State"]

    def start(self, container: str) -> None:
        """Return when it has run."""
        end = time.monotonic() + PATIENCE
        while True:
            before = self.record.moment
            answer = self.caller.ask("POST", f"/containers/{container}/start")
            if answer is not None and answer.status in (204, 304):
                return
            if self.state(container)["StartedAt"] > "0001-01-02":
                return  # it was started, and may have ended since
            # A start whose spawner was killed under it says so; one that nobody disturbed has no reason to fail.
            assert answer is None or (answer.status >= 500 and self.record.moment != before) or self.lost(container), (
                answer
            )
            assert time.monotonic() < end, (container, answer)

    def lost(self, container: str) -> bool:
        """Whether its monitor was killed."""
        return container in self.record.bereft

    def wait(self, container: str) -> int:
        """Its exit code."""
        answer = self.caller.insist("POST", f"/containers/{container}/wait")
        assert answer.status == 200, (container, answer)
        return answer.json()["StatusCode"]

    def ended_with(self, container: str, code: int) -> None:
        """Wait for its end, which is its own: with this code, unless its monitor was killed."""
        told = self.wait(container)
        shown = self.state(container)
        assert not shown["Running"] and not shown["Pid"], shown
        assert told == shown["ExitCode"], (told, shown)
        assert told == code or (self.lost(container) and told in LOST), (container, told, code, shown)

    def log(self, container: str) -> tuple[bytes, bytes]:
        """All it has said to its standard output and to its standard error."""
        answer = self.caller.look(f"/containers/{container}/logs?stdout=1&stderr=1")
        assert answer.status == 200, (container, answer)
        return frames.stdout(answer.body), frames.stderr(answer.body)

    def said(self, container: str, out: bytes) -> None:
        """It has said this and nothing else; the beginning of it, where its monitor was killed."""
        log = self.log(container)[0]
        assert log == out or (self.lost(container) and out.startswith(log)), (container, log[-200:], out[-200:])

    def remove(self, container: str) -> None:
        """Take a container away, whatever it does; then it is gone."""
        self._gone(f"/containers/{container}?force=1&v=1", f"/containers/{container}/json")

    def _gone(self, path: str, find: str) -> None:
        """Remove something, which nobody finds afterwards."""
        end = time.monotonic() + PATIENCE
        while (answer := self.caller.ask("DELETE", path)) is None or answer.status == 409:
            assert time.monotonic() < end, answer  # a removal that goes on says 409
            time.sleep(0.01)
        assert answer.status in (200, 204, 404), (path, answer)
        # The 404 of a removal that another daemon has finished is as good.
        assert self.caller.look(find).status == 404, find

    def run(self, script: str, **body: object) -> tuple[str, bytes]:
        """A script from beginning to end; the container, which is still there, and what it said."""
        container = self.container("sh", "-c", script, **body)
        self.start(container)
        self.wait(container)
        return container, self.log(container)[0]

    def sound(self, script: str, **body: object) -> bytes:
        """What a script says that must succeed; run again where its monitor was killed."""
        while True:
            container, out = self.run(script, **body)
            code, lost = self.state(container)["ExitCode"], self.lost(container)
            self.remove(container)
            if code == 0 and not lost:
                return out
            assert lost, (script, code, out)


class Runner(Client):
    """The main job: create, start, wait, logs, remove; every line and the exit code are there."""

    kind = "runner"

    def turn(self) -> None:
        lines, code = self.source.choice((1, 20, 3000)), self.source.randrange(120)
        script = f"i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; done; echo last >&2; exit {code}"
        container = self.container("sh", "-c", script)
        self.start(container)
        self.ended_with(container, code)
        self.said(container, b"".join(b"line %d\n" % number for number in range(1, lines + 1)))
        assert self.log(container)[1] == b"last\n" or self.lost(container)
        self.remove(container)


class Attached(Client):
    """Attaches to a container and gets every byte, whoever is killed meanwhile."""

    kind = "attached"

    def turn(self) -> None:
        lines = self.source.choice((50, 200))
        script = f"read go; i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; sleep 0.005; done"
        container = self.container("sh", "-c", script, OpenStdin=True, StdinOnce=True)
        self.start(container)
        expected = b"".join(b"line %d\n" % number for number in range(1, lines + 1))
        received = self._stream(container)
        if received is None:
            received = expected  # nobody was attached when it was told to go on
        else:
            assert received == expected or (self.lost(container) and expected.startswith(received)), (
                container,
                received[-200:],
            )
            self.ended_with(container, 0)
            self.said(container, received)
        self.remove(container)

    def _stream(self, container: str) -> bytes | None:
        """What comes to a client that says go; None where the daemon was killed before it was attached."""
        before = self.record.daemons
        with self.caller.connection() as connection:
            try:
                connection.hijack(f"/containers/{container}/attach?stream=1&stdin=1&stdout=1&logs=1")
                connection.send(b"go\n")
                data = connection.read_to_end()
            except (OSError, EOFError, AssertionError) as error:
                if self.record.daemon_lived(before) and not self.lost(container):
                    raise AssertionError(f"attach to {container}: nobody was killed, and yet {error!r}") from error
                return None
        if not data and not (self.record.daemon_lived(before) and not self.lost(container)):
            return None  # the daemon died between its answer and the handing over
        return frames.stdout(data)


class Executor(Client):
    """One command after the other in a container that runs."""

    kind = "executor"

    def turn(self) -> None:
        container = self.container("sleep", "600")
        self.start(container)
        for _ in range(self.source.randrange(1, 6)):
            if not self._one(container):
                break
        self.remove(container)

    def _one(self, container: str) -> bool:
        """One command; False when the container is no more."""
        word, code = uuid.uuid4().hex, self.source.randrange(120)
        script = f"echo {word}; sleep {self.source.choice((0, 0.3))}; exit {code}"  # so long that it may be killed
        body = {"Cmd": ["sh", "-c", script], "AttachStdout": True, "AttachStderr": True}
        before = self.record.moment
        created = self.caller.ask("POST", f"/containers/{container}/exec", body)
        if created is None:
            return True
        if created.status != 201:
            assert self.lost(container) and created.status in (404, 409), created
            return False
        identifier = created.json()["Id"]
        said = self._output(identifier)
        disturbed = self.record.moment != before or self.lost(container)
        if said != word.encode() + b"\n":
            assert disturbed, f"an exec said {said!r} for {word} although nobody was killed"
            return not self.lost(container)
        # What has come so far is known to every later daemon; only who kills its own monitor takes its code away.
        shown = self._ended(identifier)
        hurt = self.record.execs != before[-1] or self.lost(container)
        assert hurt or (shown.status == 200 and shown.json()["ExitCode"] == code), (shown, code)
        return not self.lost(container)

    def _ended(self, identifier: str) -> Answer:
        """What is shown of an exec once it does not run any more."""
        end = time.monotonic() + PATIENCE
        while (shown := self.caller.look(f"/exec/{identifier}/json")).status == 200 and shown.json()["Running"]:
            assert time.monotonic() < end, shown
            time.sleep(0.02)  # its output ends a moment before it does
        return shown

    def _output(self, identifier: str) -> bytes | None:
        with self.caller.connection() as connection:
            try:
                headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
                status, _ = connection.open_stream("POST", f"/exec/{identifier}/start", {}, headers)
                return frames.stdout(connection.read_to_end()) if status == 101 else None
            except (OSError, EOFError, ValueError):
                return None


class Keeper(Client):
    """Volumes: what was written into one is there until it is removed."""

    kind = "keeper"

    def turn(self) -> None:
        name, word = self.name(), uuid.uuid4().hex
        self.make("volume", "/volumes/create", {"Name": name}, f"/volumes/{name}")
        mount = {"HostConfig": {"NetworkMode": "none", "Binds": [f"{name}:/v"]}}
        self.sound(f"echo {word} > /v/word; sync", **mount)
        assert self.sound("cat /v/word", **mount) == word.encode() + b"\n"
        self._gone(f"/volumes/{name}", f"/volumes/{name}")


class Networker(Client):
    """A network of two containers that find each other by name, with addresses that nobody else has."""

    kind = "networker"
    taken: ClassVar[dict[str, str]] = {}

    def turn(self) -> None:
        name = self.name()
        network = self.make("network", "/networks/create", {"Name": name}, f"/networks/{name}")
        inside = {"HostConfig": {"NetworkMode": name}}
        web = self.container("sleep", "600", name=f"{name}-web", **inside)
        self.start(web)
        self._address_is_its_own(web, network)
        container = self.container("sleep", "600", **inside)
        self.start(container)
        self._address_is_its_own(container, network)
        self._finds(container, web, f"{name}-web")
        for each in (web, container):
            self.remove(each)
        self._gone(f"/networks/{network}", f"/networks/{network}")

    def _address_is_its_own(self, container: str, network: str) -> None:
        shown = self.caller.look(f"/networks/{network}").json()["Containers"]
        addresses = [each["IPv4Address"] for each in shown.values()]
        assert len(addresses) == len(set(addresses)), shown
        assert container in shown or self.lost(container), shown

    def _finds(self, container: str, other: str, name: str) -> None:
        """The other's name is answered, a moment after a kill of the resolver at the latest."""
        end = time.monotonic() + PATIENCE
        while not self.lost(container) and not self.lost(other):
            body = {"Cmd": ["nslookup", name], "AttachStdout": True, "AttachStderr": True}
            created = self.caller.ask("POST", f"/containers/{container}/exec", body)
            if created is None or created.status != 201:
                assert created is None or self.lost(container), created
                continue
            said = Executor._output(self, created.json()["Id"])
            if said and b"Name:\t" + name.encode() in said:
                return
            assert time.monotonic() < end or self.lost(container) or self.lost(other), said
            time.sleep(0.1)  # a new resolver tells nobody in here that it is there


class Publisher(Client):
    """A port of the host, over IPv4 by the rules and over IPv6 by the proxy, until the container is gone."""

    kind = "publisher"

    def turn(self) -> None:
        serve = "mkdir /w; echo yes > /w/index.html; exec httpd -f -p 80 -h /w"
        ports = {"NetworkMode": "bridge", "PortBindings": {"80/tcp": [{"HostPort": ""}]}}
        container = self.container("sh", "-c", serve, HostConfig=ports)
        self.start(container)
        shown = self.caller.look(f"/containers/{container}/json").json()["NetworkSettings"]["Ports"].get("80/tcp")
        for each in shown or ():
            self._reaches(container, "127.0.0.1" if each["HostIp"] == "0.0.0.0" else "::1", int(each["HostPort"]))
        assert shown or self.lost(container)
        self.remove(container)

    def _reaches(self, container: str, address: str, port: int) -> None:
        """The container's answer, a moment after a kill of the proxy at the latest."""
        end = time.monotonic() + PATIENCE
        while not self.lost(container):
            try:
                if ask(self.machine, address, port, data=b"GET / HTTP/1.0\r\n\r\n"):
                    return
            except OSError as error:
                assert time.monotonic() < end or self.lost(container), (address, port, error)
            time.sleep(0.05)  # a new proxy tells nobody out here that it is there


class Imager(Client):
    """Images: imported, named, looked at, run, removed."""

    kind = "imager"

    def turn(self) -> None:
        name, word = self.name(), uuid.uuid4().hex
        image = self._imported(name, word)
        assert self.caller.insist("POST", f"/images/{name}/tag?repo={name}&tag=other").status == 201
        for tag in ("latest", "other"):
            shown = self.caller.look(f"/images/{name}:{tag}/json")
            assert shown.status == 200 and shown.json()["Id"] == image, shown
        self._gone(f"/images/{name}:latest", f"/images/{name}:latest/json")
        assert self.caller.look(f"/images/{name}:other/json").status == 200
        self._committed(name, word)
        self._gone(f"/images/{name}:other", f"/images/{name}:other/json")
        assert self.caller.look(f"/images/{image}/json").status == 404

    def _imported(self, name: str, word: str) -> str:
        archive = rootfs.archive([("word", 0o644, word.encode())])
        while True:
            answer = self.caller.ask("POST", f"/images/create?fromSrc=-&repo={name}&tag=latest", archive, TAR)
            if answer is not None:
                assert answer.status == 200 and "error" not in answer.lines[-1], answer
                return answer.lines[-1]["status"]

    def _committed(self, name: str, word: str) -> None:
        """A container's change as an image, which has it."""
        container, _ = self.run(f"echo {word} > /kept")
        if not self.lost(container):
            answer = self._commit(container, f"{name}-kept")
            assert answer.status == 201, answer
            assert self.sound("cat /kept", Image=f"{name}-kept") == word.encode() + b"\n"
            self._gone(f"/images/{name}-kept", f"/images/{name}-kept/json")
        self.remove(container)

    def _commit(self, container: str, name: str) -> Answer:
        return self.caller.insist("POST", f"/commit?container={container}&repo={name}", {})


class Builder(Client):
    """Builds: an image that was promised has what its Dockerfile says."""

    kind = "builder"

    def turn(self) -> None:
        name, word = self.name(), uuid.uuid4().hex
        context = building.context(
            {"Dockerfile": f"FROM busybox\nRUN echo {word} > /one\nCOPY two /two\n", "two": word}
        )
        target = building.request_target({"t": name, "rm": 1})
        while True:
            before, bereft = self.record.moment, len(self.record.bereft)
            answer = self.caller.ask("POST", target, context, TAR)
            if answer is None:
                continue
            assert answer.status == 200, answer
            if "error" not in answer.lines[-1]:
                break
            # The step's own container may be the one whose monitor was killed.
            disturbed = self.record.moment != before or len(self.record.bereft) != bereft
            assert disturbed, answer.lines[-1]
        assert self.sound("cat /one /two", Image=name) == word.encode() + b"\n" + word.encode()
        self._gone(f"/images/{name}?force=1", f"/images/{name}/json")


class Restarter(Client):
    """A container that its policy runs again and again, never twice at once, and not after it was stopped."""

    kind = "restarter"

    def turn(self) -> None:
        script = "mkdir /running || { echo twice; exit 1; }; sleep 0.05; rmdir /running; echo once; exit 1"
        policy = {"NetworkMode": "none", "RestartPolicy": {"Name": "unless-stopped"}}
        container = self.container("sh", "-c", script, HostConfig=policy)
        self.start(container)
        time.sleep(self.source.random())
        answer = self.caller.insist("POST", f"/containers/{container}/stop?t=5")
        assert answer.status in (204, 304), answer
        runs = self.log(container)[0]
        assert b"twice" not in runs or self.lost(container), runs
        time.sleep(self.source.random() / 2)
        state = self.state(container)
        assert not state["Running"], state
        assert self.log(container)[0] == runs, "it ran again although it was stopped"
        self.remove(container)


class Witness(Client):
    """Follows one container through all kills, attached from beginning to end; it ends when it is told to."""

    kind = "witness"
    SCRIPT = (
        "trap 'enough=1' USR1; i=0; while [ -z \"$enough\" ]; do i=$((i+1)); echo line $i; sleep 0.01; done; "
        "echo $i in all; exit 23"
    )

    def begin(self) -> None:
        """Before the first kill."""
        self.id = self.container("sh", "-c", self.SCRIPT)
        self.record.spared.add(self.id)
        self.connection = self.caller.connection()
        self.connection.hijack(f"/containers/{self.id}/attach?stream=1&stdout=1")
        self.received: list[bytes] = []
        # All the time: a client that does not read slows the container down.
        self.reader = threading.Thread(target=lambda: self.received.append(self.connection.read_to_end()), daemon=True)
        self.reader.start()
        self.start(self.id)
        self.pid = self.state(self.id)["Pid"]

    def end(self) -> int:
        """After the last kill: it is the same process, and nothing that it said is missing; how many lines."""
        state = self.state(self.id)
        assert (state["Status"], state["Pid"]) == ("running", self.pid), state
        assert self.caller.look("/_ping").status == 200
        assert self.caller.insist("POST", f"/containers/{self.id}/kill?signal=USR1").status == 204
        self.ended_with(self.id, 23)
        self.reader.join(PATIENCE)
        assert not self.reader.is_alive(), "the attached client was not let go at the container's end"
        self.connection.close()
        received = frames.stdout(self.received[0])
        said, _ = self.log(self.id)
        count = int(said.splitlines()[-1].removesuffix(b" in all"))
        whole = b"".join(b"line %d\n" % number for number in range(1, count + 1)) + b"%d in all\n" % count
        assert received == said == whole, (received[-100:], said[-100:])
        self.remove(self.id)
        return count


KINDS: tuple[Callable[..., Client], ...] = (
    Runner,
    Attached,
    Executor,
    Keeper,
    Networker,
    Publisher,
    Imager,
    Builder,
    Restarter,
)
