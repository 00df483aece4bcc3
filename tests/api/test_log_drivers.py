"""The log drivers, each through real containers: what they write, who gets it, and what of it can be read again."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.logdrivers import attached, driver
from tests.harness import frames
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")

FAILED = "failed to create task for container: failed to initialize logging driver: "
BOTH = "echo out; sleep 0.1; echo err >&2"


# What a container gets that asks for none.


CAPPED = {"Type": "json-file", "Config": {"max-size": "20m", "max-file": "5"}}


def test_json_file_is_the_default_and_says_so(daemon: Daemon, ended: Callable[..., str]) -> None:
    """In inspect and in info, with the file that other programs of the host read."""
    one = ended("echo hello")
    shown = daemon.inspect(one)
    assert shown["HostConfig"]["LogConfig"] == CAPPED
    assert shown["LogPath"] == f"{daemon.data_root}/containers/{one}/{one}-json.log"
    assert json.loads(Path(shown["LogPath"]).read_text())["log"] == "hello\n"
    assert daemon.inspect(ended("echo hello", **driver("local")))["LogPath"] == ""
    info = daemon.request("GET", "/info").json()
    assert info["LoggingDriver"] == "json-file"
    assert {"local", "json-file", "syslog", "journald"} <= set(info["Plugins"]["Log"])


def test_the_default_is_capped(daemon: Daemon, ended: Callable[..., str]) -> None:
    """At five times 20 MB: of 130 MB the last hundred or so stay."""
    one = ended("yes 0123456789012345678901234567890123456789 | head -c 130000000")
    path = Path(daemon.inspect(one)["LogPath"])
    sizes = [each.stat().st_size for each in sorted(path.parent.glob(f"{path.name}*"))]
    assert len(sizes) == 5
    assert all(20_000_000 <= size < 20_001_000 for size in sizes[1:])


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({"labels": "a"}, {"labels": "a", **CAPPED["Config"]}),
        ({"max_file": "1"}, {"max-file": "1"}),
        ({"max_size": "3k"}, {"max-size": "3k"}),
        ({"compress": "true"}, {"compress": "true"}),
    ],
)
def test_who_says_something_of_the_size_gets_just_that(
    daemon: Daemon, options: dict[str, str], config: dict[str, str]
) -> None:
    """And one file without bound by naming one file, as with docker."""
    one = daemon.create("true", **driver("json-file", **options))
    assert daemon.inspect(one)["HostConfig"]["LogConfig"]["Config"] == config


def test_a_daemons_settings_are_for_who_asks_for_no_driver(make_daemon: Callable[..., Daemon]) -> None:
    """And its options for who asks for that driver, as far as they say nothing themselves."""
    own = make_daemon("--log-driver", "json-file", "--log-opt", "max-size=1m", "--log-opt", "max-file=2")
    own.import_busybox()
    assert own.request("GET", "/info").json()["LoggingDriver"] == "json-file"
    configs = [
        own.inspect(own.create("true", **body))["HostConfig"]["LogConfig"]
        for body in ({}, driver("json-file", max_file="3"), driver("local"))
    ]
    assert configs == [
        {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
        {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "3"}},
        {"Type": "local", "Config": {}},
    ]


def test_a_daemon_refuses_a_default_that_makes_no_sense(world: object) -> None:
    """At its start, in words."""
    refused = world.daemon(("--log-driver", "local", "--log-opt", "bogus=1"))
    with pytest.raises(Exception, match="failed to set log opts: unknown log opt 'bogus' for log driver local"):
        refused.start()


# What create and start refuse, in dockerd's words (dockerd 20.10, 2026-11-22).

REFUSED_AT_CREATE = [
    (driver("json-file", bogus="1"), "unknown log opt 'bogus' for json-file log driver"),
    (driver("local", bogus="1"), "unknown log opt 'bogus' for log driver local"),
    (driver("local", labels="a"), "unknown log opt 'labels' for log driver local"),
    (driver("syslog", bogus="1"), "unknown log opt 'bogus' for syslog log driver"),
    (driver("journald", bogus="1"), "unknown log opt 'bogus' for journald log driver"),
    (driver("nosuch"), 'error looking up logging plugin nosuch: plugin "nosuch" not found'),
    (driver("json-file", mode="x"), "logger: logging mode not supported: x"),
    (
        driver("json-file", max_buffer_size="1m"),
        "logger: max-buffer-size option is only supported with 'mode=non-blocking'",
    ),
    (
        driver("json-file", mode="non-blocking", max_buffer_size="x"),
        "error parsing option max-buffer-size: invalid size: 'x'",
    ),
    (driver("syslog", syslog_address="x"), "syslog-address should be in form proto://address, got x"),
    (driver("syslog", syslog_address="unix:///nope"), "stat /nope: no such file or directory"),
    (driver("syslog", syslog_facility="foo"), "invalid syslog facility"),
    (driver("syslog", syslog_facility="99"), "invalid syslog facility"),
    (driver("syslog", syslog_format="foo"), "Invalid syslog format"),
    (driver("syslog", cache_disabled="x"), "invalid value for option cache-disabled: x"),
    (driver("gelf"), "gelf-address is a required parameter"),
    (driver("gelf", gelf_address="udp://h"), "gelf: please provide gelf-address as proto://host:port"),
    (driver("gelf", gelf_address="udp://h:1", bogus="1"), 'unknown log opt "bogus" for gelf log driver'),
    (driver("fluentd", bogus="1"), "unknown log opt 'bogus' for fluentd log driver"),
    (driver("fluentd", fluentd_address="x://h"), "invalid fluentd-address (x://h): unsupported scheme: 'x'"),
    (driver("splunk", bogus="1"), "unknown log opt 'bogus' for splunk log driver"),
]
REFUSED_AT_START = [
    (driver("json-file", max_size="bogus"), "invalid size: 'bogus'"),
    (driver("json-file", max_size="0"), "max-size must be a positive number"),
    (driver("json-file", max_file="x"), 'strconv.Atoi: parsing "x": invalid syntax'),
    (driver("json-file", max_file="0"), "max-file cannot be less than 1"),
    (driver("json-file", compress="maybe"), 'strconv.ParseBool: parsing "maybe": invalid syntax'),
    (
        driver("json-file", compress="true"),
        "compress cannot be true when max-file is less than 2 or max-size is not set",
    ),
    (driver("local", compress="true", max_file="1"), "compression cannot be enabled when max file count is 1"),
    (
        driver("local", compress="maybe"),
        'error reading compress log option: strconv.ParseBool: parsing "maybe": invalid syntax',
    ),
    (driver("local", max_size="bogus"), "invalid value for max-size: bogus: invalid size: 'bogus'"),
    (driver("local", max_file="x"), 'invalid value for max-file: x: strconv.Atoi: parsing "x": invalid syntax'),
    (
        driver("json-file", tag="{{.Bogus}}"),
        'template: log-tag:1:2: executing "log-tag" at <.Bogus>: can\'t evaluate field Bogus in type *logger.Info',
    ),
    (driver("json-file", tag="{{"), "template: log-tag:1: unclosed action"),
    (driver("json-file", labels_regex="("), "error parsing regexp: missing closing ): `(`"),
    (driver("syslog", syslog_address="tcp://127.0.0.1:1"), "dial tcp 127.0.0.1:1: connect: connection refused"),
    (driver("syslog", syslog_address="tcp+tls://127.0.0.1:1"), "dial tcp 127.0.0.1:1: connect: connection refused"),
    (
        driver("syslog", syslog_address="tcp+tls://127.0.0.1:1", syslog_tls_ca_cert="/nope"),
        'could not read CA certificate "/nope": open /nope: no such file or directory',
    ),
    (driver("journald"), "journald is not enabled on this host"),
    (
        driver("gelf", gelf_address="tcp://127.0.0.1:1"),
        "gelf: cannot connect to GELF endpoint: 127.0.0.1:1 dial tcp 127.0.0.1:1: connect: connection refused",
    ),
    (driver("fluentd", fluentd_address="127.0.0.1:1"), "dial tcp 127.0.0.1:1: connect: connection refused"),
    (driver("splunk"), "splunk: splunk-url is expected"),
    (driver("splunk", splunk_url="http://127.0.0.1:1"), "splunk: splunk-token is expected"),
    (
        driver("splunk", splunk_url="http://127.0.0.1:1", splunk_token="t"),
        'Options "http://127.0.0.1:1/services/collector/event/1.0": dial tcp 127.0.0.1:1: connect: connection refused',
    ),
]


@pytest.mark.parametrize(("body", "message"), REFUSED_AT_CREATE)
def test_create_refuses_in_dockers_words(daemon: Daemon, body: dict, message: str) -> None:
    """With status 400."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], **body})
    assert (answer.status, answer.message) == (400, message)


@pytest.mark.parametrize(("body", "message"), REFUSED_AT_START)
def test_start_refuses_in_dockers_words(
    daemon: Daemon, container: Callable[..., str], body: dict, message: str
) -> None:
    """With status 500, and the container says why."""
    if "journald" in message and os.path.exists("/run/systemd/journal/socket"):
        pytest.skip("this host has a journal")
    one = container("true", **body)
    answer = daemon.request("POST", f"/containers/{one}/start")
    assert (answer.status, answer.message) == (500, FAILED + message)
    state = daemon.inspect(one)["State"]
    assert (state["Status"], state["ExitCode"], state["Error"]) == ("created", 128, FAILED + message)


@pytest.mark.parametrize(
    "body",
    [*map(driver, ("awslogs", "gcplogs"))],
)
def test_what_is_not_built_is_refused_in_words(daemon: Daemon, body: dict) -> None:
    """Not swallowed."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], **body})
    assert answer.status == 501
    assert "not built" in answer.message


@pytest.mark.parametrize("beside", [False, True])
def test_a_compressed_log_can_be_read(
    daemon: Daemon, container: Callable[..., str], tmp_path: Path, beside: bool
) -> None:
    """That of `local`, and the copy beside what is sent elsewhere: all of it, in order; its older files are small."""
    options = {"max_size": "15k", "max_file": "9", "compress": "true"}
    with contextlib.ExitStack() as stack:
        body = driver("local", **options)
        if beside:
            stack.enter_context(listening(tmp_path / "log", socket.SOCK_DGRAM)).setblocking(False)
            cache = {f"cache_{name}": value for name, value in options.items()}
            address = f"unixgram://{tmp_path}/log"
            body = driver("syslog", syslog_address=address, mode="non-blocking", labels="l", **cache)
        script = "for i in 1 2 3 4; do seq ${i}000 ${i}400; sleep 0.3; done"
        one = container("sh", "-c", script, Labels={"l": "x"}, **body)
        daemon.begin(one)
        assert daemon.wait(one, timeout=60) == 0
    wanted = b"".join(b"%d\n" % number for turn in range(1000, 5000, 1000) for number in range(turn, turn + 401))
    assert frames.stdout(daemon.logs(one, "stdout=1")) == wanted
    assert frames.stdout(daemon.logs(one, "stdout=1&tail=2")) == b"4399\n4400\n"
    assert daemon.inspect(one)["LogPath"] == ""
    files = list((daemon.data_root / "containers" / one).glob("*.gz"))
    assert files
    assert all(each.stat().st_size < 3000 for each in files)
    details = daemon.request("GET", f"/containers/{one}/logs?stdout=1&details=1&tail=1").body[8:]
    assert details == (b"l=x 4400\n" if beside else b" 4400\n")


def test_none_keeps_nothing(daemon: Daemon, ended: Callable[..., str]) -> None:
    """And says so."""
    answer = daemon.request("GET", f"/containers/{ended('echo lost', **driver('none'))}/logs?stdout=1")
    assert (answer.status, answer.message) == (501, "configured logging driver does not support reading")


# syslog and journald, against a listener of the test's.


@contextlib.contextmanager
def listening(path: Path, kind: int) -> Iterator[socket.socket]:
    """A Unix socket that a driver sends to."""
    with socket.socket(socket.AF_UNIX, kind) as listener:
        listener.settimeout(10)
        listener.bind(str(path))
        if kind == socket.SOCK_STREAM:
            listener.listen()
        yield listener
    path.unlink()


UNIX = r"<%d>\w{3} [ \d]\d \d\d:\d\d:\d\d %s\[\d+\]: %s\n"
RFC3164 = r"<%d>\w{3} [ \d]\d \d\d:\d\d:\d\d \S+ %s\[\d+\]: %s\n"
RFC5424 = r"<%d>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d) \S+ %s \d+ \2 - %s\n"
MICRO = r"<%d>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(?:Z|[+-]\d\d:\d\d) \S+ %s \d+ \2 - %s\n"


@pytest.mark.parametrize(
    ("form", "pattern"), [("", UNIX), ("rfc3164", RFC3164), ("rfc5424", RFC5424), ("rfc5424micro", MICRO)]
)
def test_syslog_gets_each_line(
    daemon: Daemon, ended: Callable[..., str], tmp_path: Path, form: str, pattern: str
) -> None:
    """In the form asked for, with the facility, the severity of its stream and the tag; and it can be read here."""
    options = {"syslog_address": f"unixgram://{tmp_path}/log", "syslog_format": form, "syslog_facility": "local3"}
    with listening(tmp_path / "log", socket.SOCK_DGRAM) as listener:
        one = ended("echo out; echo; sleep 0.1; echo err >&2", **driver("syslog", tag="t/{{.ID}}", **options))
        got = [listener.recv(65536).decode() for _ in range(2)]
    tag = f"(t/{one[:12]})"
    for said, (priority, text) in zip(got, ((19 * 8 + 6, "out"), (19 * 8 + 3, "err")), strict=True):
        wanted = (pattern % (priority, tag, text)).replace("\\2", "\\1")
        assert re.fullmatch(wanted, said), said
    assert frames.stdout(daemon.logs(one, "stdout=1")) == b"out\n\n"


@pytest.mark.parametrize("kind", ["unix", "tcp", "udp"])
def test_syslog_goes_over_streams_and_networks(
    daemon: Daemon, ended: Callable[..., str], tmp_path: Path, kind: str
) -> None:
    """A stream's messages end with a newline; no cache, no reading."""
    with contextlib.ExitStack() as stack:
        if kind == "unix":
            listener = stack.enter_context(listening(tmp_path / "log", socket.SOCK_STREAM))
            address = f"unix://{tmp_path}/log"
        else:
            listener = stack.enter_context(
                daemon.namespaces.socket(socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
            )
            listener.settimeout(10)
            listener.bind(("127.0.0.1", 0))
            if kind == "tcp":
                listener.listen()
            address = f"{kind}://127.0.0.1:{listener.getsockname()[1]}"
        one = ended("echo one; echo two", **driver("syslog", syslog_address=address, cache_disabled="true"))
        source = listener if kind == "udp" else stack.enter_context(listener.accept()[0])
        got = b""
        while got.count(b"\n") < 2:
            got += source.recv(65536)
    assert [line.rpartition(b": ")[2] for line in got.splitlines()] == [b"one", b"two"]
    answer = daemon.request("GET", f"/containers/{one}/logs?stdout=1")
    assert (answer.status, answer.message) == (501, "configured logging driver does not support reading")


def test_a_syslog_that_takes_nothing_holds_up_only_who_is_to_wait(
    daemon: Daemon, container: Callable[..., str], tmp_path: Path
) -> None:
    """mode=blocking waits; mode=non-blocking drops, and what comes through is whole lines."""
    script = "yes 0123456789012345678901234567890123456789 | head -n 60000; echo done"
    with listening(tmp_path / "log", socket.SOCK_STREAM) as listener:
        address = f"unix://{tmp_path}/log"
        waits = container("sh", "-c", script, **driver("syslog", syslog_address=address))
        drops = container(
            "sh", "-c", script, **driver("syslog", syslog_address=address, mode="non-blocking", max_buffer_size="100k")
        )
        daemon.begin(drops)
        assert daemon.wait(drops) == 0
        dropped, _ = listener.accept()
        daemon.begin(waits)
        connection, _ = listener.accept()
        time.sleep(0.5)
        assert daemon.inspect(waits)["State"]["Running"]
        counts = []
        for each in (connection, dropped):
            each.settimeout(10)
            got = b""
            while data := each.recv(1 << 20):
                got += data
            each.close()
            counts.append(got.count(b"\n"))
            assert all(
                line.endswith((b": done", b": 0123456789012345678901234567890123456789")) for line in got.splitlines()
            )
        assert counts[0] == 60001
        assert counts[1] < 60001
    assert frames.stdout(daemon.logs(drops, "stdout=1&tail=1")) == b"done\n"


JOURNAL = """
import json, os, socket, sys
os.makedirs("/run/systemd/journal", exist_ok=True)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
    listener.bind("/run/systemd/journal/socket")
    print("ready", flush=True)
    while data := listener.recv(1 << 20):
        print(data.hex(), flush=True)
"""


@pytest.fixture
def journal(daemon: Daemon) -> Iterator[Callable[[], dict[str, bytes]]]:
    """A journal in the daemon's mount namespace, on a /run/systemd of its own; a function that returns an entry."""
    inside = daemon.namespaces.command(
        ["sh", "-c", 'mkdir -p /run/systemd && mount -t tmpfs t /run/systemd && exec "$@"']
    )
    made = subprocess.Popen(
        [*inside, "sh", sys.executable, "-c", JOURNAL], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert made.stdout.readline() == "ready\n"

    def entry() -> dict[str, bytes]:
        fields, rest = {}, bytes.fromhex(made.stdout.readline())
        while rest:
            line, _, rest = rest.partition(b"\n")
            name, equals, value = line.partition(b"=")
            if not equals:
                size = int.from_bytes(rest[:8], "little")
                value, rest = rest[8 : 8 + size], rest[9 + size :]
            fields[name.decode()] = value
        return fields

    yield entry
    made.kill()
    made.wait()
    made.stdout.close()
    subprocess.run(daemon.namespaces.command(["umount", "/run/systemd"]), check=True)


def test_journald_gets_dockers_fields(
    daemon: Daemon, container: Callable[..., str], journal: Callable[[], dict[str, bytes]]
) -> None:
    """Of each line, and of each piece of a long one; and it can be read here."""
    script = "echo out; read x; echo err >&2; read x; head -c 20000 /dev/zero | tr '\\0' x; echo"
    body = driver("journald", labels="my.label", env="LINES", tag="{{.Name}}")
    one = container("sh", "-c", script, OpenStdin=True, Labels={"my.label": "v"}, Env=["LINES=a\nb"], **body)
    daemon.begin(one)
    name = daemon.inspect(one)["Name"].lstrip("/").encode()
    entries = []
    with attached(daemon, one, "stream=1&stdin=1") as connection:
        for _ in range(2):  # each stream is read by itself, in the order in which somebody looks
            entries.append(journal())
            connection.sendall(b"\n")
        daemon.wait(one)
    entries += [journal() for _ in range(2)]
    assert [each["PRIORITY"] for each in entries] == [b"6", b"3", b"6", b"6"]
    assert [each["MESSAGE"] for each in entries] == [b"out", b"err", b"x" * 16384, b"x" * 3616]
    shared = {
        "CONTAINER_ID": one[:12].encode(),
        "CONTAINER_ID_FULL": one.encode(),
        "CONTAINER_NAME": name,
        "CONTAINER_TAG": name,
        "IMAGE_NAME": b"busybox",
        "SYSLOG_IDENTIFIER": name,
        "MY_LABEL": b"v",
        "LINES": b"a\nb",
    }
    for each in entries:
        assert shared.items() <= each.items()
    assert "CONTAINER_PARTIAL_MESSAGE" not in entries[0]
    first, last = (
        {key: each.get(f"CONTAINER_PARTIAL_{key}") for key in ("MESSAGE", "ORDINAL", "LAST")} for each in entries[2:]
    )
    assert first == {"MESSAGE": b"true", "ORDINAL": b"1", "LAST": b"false"}
    assert last == {"MESSAGE": None, "ORDINAL": b"2", "LAST": b"true"}
    assert entries[2]["CONTAINER_PARTIAL_ID"] == entries[3]["CONTAINER_PARTIAL_ID"]
    assert frames.stdout(daemon.logs(one, "stdout=1&tail=3&details=1")).startswith(b"LINES=a%0Ab,my.label=v out\n")


def test_syslog_is_the_same_without_the_c_muxer(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """One process is the whole monitor then."""
    plain = make_daemon("--muxer", "python")
    plain.import_busybox()
    with listening(tmp_path / "log", socket.SOCK_DGRAM) as listener:
        one = plain.create("echo", "hi", **driver("syslog", syslog_address=f"unixgram://{tmp_path}/log"))
        plain.begin(one)
        assert listener.recv(65536).endswith(b": hi\n")
        assert plain.wait(one) == 0
    assert frames.stdout(plain.logs(one, "stdout=1")) == b"hi\n"


def test_syslog_goes_on_while_there_is_no_daemon(own_daemon: Daemon, tmp_path: Path) -> None:
    """The forwarder outlives it as the monitor does, and ends with the container."""
    with listening(tmp_path / "log", socket.SOCK_DGRAM) as listener:
        body = driver("syslog", syslog_address=f"unixgram://{tmp_path}/log")
        one = own_daemon.create("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done", **body)
        own_daemon.begin(one)
        own_daemon.kill9()
        said = [listener.recv(65536).rpartition(b": ")[2] for _ in range(5)]
        own_daemon.start()
        assert own_daemon.wait(one) == 0
    assert said == [b"%d\n" % number for number in range(1, 6)]
    assert frames.stdout(own_daemon.logs(one, "stdout=1")) == b"".join(said)


def test_a_forwarder_that_is_killed_takes_nothing_with_it(
    daemon: Daemon, container: Callable[..., str], tmp_path: Path
) -> None:
    """The container runs on, and its log is kept here."""
    with listening(tmp_path / "log", socket.SOCK_DGRAM) as listener:
        script = "echo one; read x; echo two"
        body = driver("syslog", syslog_address=f"unixgram://{tmp_path}/log")
        one = container("sh", "-c", script, OpenStdin=True, **body)
        daemon.begin(one)
        pid = int(re.search(rb"\[(\d+)\]: one\n", listener.recv(65536))[1])
        os.kill(pid, 9)
        with attached(daemon, one, "stream=1&stdin=1") as connection:
            connection.sendall(b"go\n")
            assert daemon.wait(one) == 0
    assert frames.stdout(daemon.logs(one, "stdout=1")) == b"one\ntwo\n"
