"""Log drivers that are plugins: their FIFO, what they are told, and reading a log back from them."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.logs.drivers import entries
from tests.api.logdrivers import driver
from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.listening import until
from tests.harness.plugin import Object, Plugin

FAILED = "failed to create task for container: failed to initialize logging driver: "


def fields(data: bytes) -> dict[int, object]:
    """The fields of a message of protobuf by their numbers: numbers and bytes."""
    found: dict[int, object] = {}
    place = 0

    def varint() -> int:
        nonlocal place
        number = shift = 0
        while True:
            byte = data[place]
            place += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while place < len(data):
        tag = varint()
        if tag & 7 == 0:
            found[tag >> 3] = varint()
        else:
            assert tag & 7 == 2
            size = varint()
            found[tag >> 3], place = data[place : place + size], place + size
    return found


class Logger(Plugin):
    """A log plugin that keeps the entries of each FIFO, and tells them again where it is to be read."""

    def __init__(self, readable: bool) -> None:
        super().__init__("LogDriver")
        self.entries: list[bytes] = []
        self.readers: list[threading.Thread] = []
        self.readable = readable
        self.reading = threading.Event()
        self.reading.set()
        self.methods |= {
            "LogDriver.StartLogging": self._start,
            "LogDriver.StopLogging": lambda _: {"Err": ""},
            "LogDriver.Capabilities": lambda _: {"Cap": {"ReadLogs": self.readable}},
            "LogDriver.ReadLogs": self._tell,
        }

    def _start(self, asked: Object) -> Object:
        file = open(os.open(asked["File"], os.O_RDONLY), "rb")  # noqa: SIM115  (the thread closes it)
        thread = threading.Thread(target=self._read, args=(file,), daemon=True)
        thread.start()
        self.readers.append(thread)
        return {}

    def _read(self, file) -> None:
        with file:
            self.reading.wait(60)
            while head := file.read(4):
                self.entries.append(file.read(int.from_bytes(head, "big")))

    def _tell(self, _: Object) -> tuple[int, bytes]:
        return 200, b"".join(len(each).to_bytes(4, "big") + each for each in self.entries)

    def said(self) -> list[dict[int, object]]:
        """All entries, once the FIFOs have ended."""
        for each in self.readers:
            each.join(30)
        return [fields(each) for each in self.entries]


def inspected(daemon: Daemon, one: str) -> Object:
    """Of a container whose driver the API's definition does not know, as it knows only those that are built in."""
    return daemon.request("GET", f"/containers/{one}/json", checked=False).json()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the daemon of these tests looks for plugins."""
    return tmp_path_factory.mktemp("l")


@pytest.fixture(scope="module")
def plugged(world, directory: Path) -> Iterator[Daemon]:
    """A daemon that looks for plugins there."""
    made = world.daemon(["--plugin-dir", str(directory)]).start()
    made.import_busybox()
    yield made
    made.stop()


@pytest.fixture
def logger(directory: Path, plugged: Daemon) -> Iterator[Callable[..., Logger]]:
    """A function: a log plugin called `keeper`, which can be read or not."""
    with contextlib.ExitStack() as stack:
        yield lambda readable=False: stack.enter_context(Logger(readable).serving(directory / "keeper.sock"))


@pytest.fixture
def container(plugged: Daemon) -> Iterator[Callable[..., str]]:
    """Create containers that are removed after the test."""
    made: list[str] = []

    def create(script: str, **body: object) -> str:
        made.append(plugged.create("sh", "-c", script, **body))
        return made[-1]

    yield create
    for each in made:
        plugged.remove(each)


def test_a_plugin_gets_each_line_through_its_fifo(
    plugged: Daemon, logger: Callable[..., Logger], container: Callable[..., str]
) -> None:
    """With its source and time, and the pieces of a long one; and what the container is. A copy is kept to be read."""
    plugin = logger()
    begun = time.time_ns()
    script = "echo out; sleep 0.1; echo err >&2; sleep 0.1; head -c 20000 /dev/zero | tr '\\0' x; echo"
    one = container(script, Labels={"l": "x"}, Env=["E=y"], **driver("keeper", anything="goes", labels="l"))
    plugged.begin(one)
    assert plugged.wait(one) == 0
    said = plugin.said()
    assert [(each[1], each[3]) for each in said] == [
        (b"stdout", b"out"),
        (b"stderr", b"err"),
        (b"stdout", b"x" * 16384),
        (b"stdout", b"x" * 3616),
    ]
    assert all(begun < each[2] < time.time_ns() for each in said)
    pieces = [fields(each[5]) for each in said[2:]]
    assert [(each.get(1, 0), each[3]) for each in pieces] == [(0, 1), (1, 2)]
    assert pieces[0][2] == pieces[1][2]
    [asked] = plugin.asked("LogDriver.StartLogging")
    shown = inspected(plugged, one)
    told = asked["Info"]
    assert (told["ContainerID"], told["ContainerName"], told["DaemonName"]) == (one, shown["Name"], "docker")
    assert (told["ContainerEntrypoint"], told["ContainerArgs"]) == (shown["Path"], shown["Args"])
    assert told["Config"] == {"anything": "goes", "labels": "l"}
    assert (told["ContainerLabels"], "E=y" in told["ContainerEnv"]) == ({"l": "x"}, True)
    assert told["ContainerCreated"] == shown["Created"]
    assert plugin.asked("LogDriver.StopLogging") == [{"File": asked["File"]}]
    until(lambda: not os.path.exists(asked["File"]))  # what a run has left is cleared away after its end is told
    assert frames.stdout(plugged.logs(one, "stdout=1&tail=2")).startswith(b"out\n")
    assert plugin.asked("LogDriver.ReadLogs") == []


def test_a_plugin_that_can_be_read_is_read(
    plugged: Daemon, logger: Callable[..., Logger], container: Callable[..., str]
) -> None:
    """And nothing is kept here."""
    plugin = logger(readable=True)
    one = container("echo out", **driver("keeper"))
    plugged.begin(one)
    plugged.wait(one)
    plugin.said()
    plugin.entries[:] = [
        entries.entry(1, b"first\n", None, 1_795_307_416_000_000_000)[4:],
        entries.entry(2, b"second\n", None, 1_795_307_417_000_000_000)[4:],
    ]
    raw = plugged.request("GET", f"/containers/{one}/logs?stdout=1&stderr=1&timestamps=1&tail=5").body
    assert raw == (
        frames.frame(1, b"2026-11-22T00:30:16.000000000Z first\n")
        + frames.frame(2, b"2026-11-22T00:30:17.000000000Z second\n")
    )
    config = {"Since": "0001-01-01T00:00:00Z", "Until": "0001-01-01T00:00:00Z", "Tail": 5, "Follow": False}
    [asked] = plugin.asked("LogDriver.ReadLogs")
    assert (asked["Config"], asked["Info"]["ContainerID"]) == (config, one)
    later = plugged.request("GET", f"/containers/{one}/logs?stdout=1&stderr=1&since=1795307417").body
    assert later == frames.frame(2, b"second\n")
    assert plugged.request("GET", f"/containers/{one}/logs?stdout=1&follow=1").body == frames.frame(1, b"first\n")
    assert not (plugged.data_root / "containers" / one / "log").exists()


@pytest.mark.parametrize(
    "answer", [b"\xff\xff\xff\xff" + b"x" * 1000, b"\0\0\0\x05\xff\xff\xff\xff\xff", b"\0\0\0\x40cut", b""]
)
def test_rubbish_of_a_plugin_is_no_line(
    plugged: Daemon, logger: Callable[..., Logger], container: Callable[..., str], answer: bytes
) -> None:
    """The daemon goes on."""
    plugin = logger(readable=True)
    one = container("true", **driver("keeper"))
    plugged.begin(one)
    plugged.wait(one)
    plugin.methods["LogDriver.ReadLogs"] = lambda _: (200, answer)
    with contextlib.suppress(EOFError):  # an answer that has begun is cut
        assert b"x" not in plugged.request("GET", f"/containers/{one}/logs?stdout=1").body
    assert plugged.request("GET", "/_ping").status == 200


def test_what_create_and_start_refuse(
    plugged: Daemon, logger: Callable[..., Logger], container: Callable[..., str]
) -> None:
    """In the words of dockerd."""
    body = {"Image": "busybox", "Cmd": ["true"], **driver("keeper")}
    answer = plugged.request("POST", "/containers/create", body)
    words = 'error looking up logging plugin keeper: plugin "keeper" not found'
    assert (answer.status, answer.message) == (400, words)
    plugin = logger()
    bad = {**body, **driver("keeper", mode="odd")}
    answer = plugged.request("POST", "/containers/create", bad)
    assert (answer.status, answer.message) == (400, "logger: logging mode not supported: odd")
    plugin.methods["LogDriver.StartLogging"] = lambda _: {"Err": "no room"}
    answer = plugged.request("POST", f"/containers/{container('true', **driver('keeper'))}/start")
    assert (answer.status, answer.message) == (500, f"{FAILED}error creating logger: no room")


def test_a_plugin_that_does_not_read_holds_up_only_who_is_to_wait(
    plugged: Daemon, logger: Callable[..., Logger], container: Callable[..., str]
) -> None:
    """mode=non-blocking drops; who waits goes on when the plugin reads."""
    plugin = logger()
    plugin.reading.clear()
    script = "yes 0123456789012345678901234567890123456789 | head -n 60000; echo done"
    drops = container(script, **driver("keeper", mode="non-blocking", max_buffer_size="100k"))
    waits = container(script, **driver("keeper"))
    plugged.begin(waits)
    plugged.begin(drops)
    assert plugged.wait(drops) == 0
    assert inspected(plugged, waits)["State"]["Running"]
    assert frames.stdout(plugged.logs(drops, "stdout=1&tail=1")) == b"done\n"
    plugin.reading.set()
    assert plugged.wait(waits) == 0
    said = [each[3] for each in plugin.said()]
    assert 60001 <= len(said) < 2 * 60001
    assert b"done" in said


@pytest.mark.seldom
def test_a_plugin_that_never_reads_hears_of_the_end(
    plugged: Daemon, logger: Callable[..., Logger], container: Callable[..., str]
) -> None:
    """The process that waits for it does not wait for ever."""
    plugin = logger()
    plugin.methods["LogDriver.StartLogging"] = lambda _: {}
    one = container("yes 0123456789012345678901234567890123456789", **driver("keeper"))
    plugged.begin(one)
    time.sleep(0.3)
    plugged.request("POST", f"/containers/{one}/kill")
    plugged.wait(one)
    for _ in range(3000):
        if plugin.asked("LogDriver.StopLogging"):
            return
        time.sleep(0.02)
    raise AssertionError("the plugin was not told of the end")


def test_a_plugin_goes_on_reading_while_there_is_no_daemon(
    make_daemon: Callable[..., Daemon], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The process beside the monitor has the FIFO."""
    directory = tmp_path_factory.mktemp("k")
    with Logger(readable=False).serving(directory / "keeper.sock") as plugin:
        own = make_daemon("--plugin-dir", str(directory))
        own.import_busybox()
        one = own.create("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done", **driver("keeper"))
        own.begin(one)
        own.kill9()
        said = [each[3] for each in plugin.said()]
        own.start()
        assert own.wait(one) == 0
        own.remove(one)
    assert said == [b"1", b"2", b"3", b"4", b"5"]
