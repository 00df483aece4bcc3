"""The log driver json-file: docker's bytes, rotated, compressed, followed, replayed, and dockerd's own files served."""

import gzip
import json
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.api.logdrivers import attached, driver, heard
from tests.harness import execs, frames
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

BOTH = "echo out; sleep 0.1; echo err >&2"


def json_file(daemon: Daemon, identifier: str) -> Path:
    """The file of a json-file log."""
    path = Path(daemon.inspect(identifier)["LogPath"])
    assert path == daemon.data_root / "containers" / identifier / f"{identifier}-json.log"
    return path


def test_json_file_writes_dockers_lines(daemon: Daemon, ended: Callable[..., str]) -> None:
    """One object a line, in dockerd's order, with the container's attributes where the options ask for them."""
    body = driver("json-file", labels="a,none", env_regex="^ZZ", tag="{{.ID}}/{{.Name}}/{{.ImageName}}")
    one = ended(BOTH, Labels={"a": "<1>", "b": "2"}, Env=["ZZ=x\ty", "Q=1"], **body)
    name = daemon.inspect(one)["Name"].lstrip("/")
    attributes = rf'"attrs":{{"ZZ":"x\ty","a":"\u003c1\u003e","tag":"{one[:12]}/{name}/busybox"}},'
    lines = json_file(daemon, one).read_text().splitlines()
    stamp = r'"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,8}[1-9])?Z"\}'
    for line, (text, stream) in zip(lines, (("out", "stdout"), ("err", "stderr")), strict=True):
        wanted = rf'{{"log":"{text}\n","stream":"{stream}",{attributes}'
        assert re.fullmatch(re.escape(wanted) + stamp, line)
    details = daemon.logs(one, "stdout=1&details=1")
    assert frames.stdout(details) == b"ZZ=x%%09y,a=%%3C1%%3E,tag=%b%%2F%b%%2Fbusybox out\n" % (
        one[:12].encode(),
        name.encode(),
    )


def test_json_file_is_read_like_any_log(daemon: Daemon, container: Callable[..., str]) -> None:
    """Streams, tail (of all streams, as dockerd counts), timestamps, since and until."""
    words = [(stream, f"{word} {n}") for n in (1, 2, 3) for stream, word in ((1, "out"), (2, "err"))]
    one = heard(daemon, container, words, **driver("json-file"))
    assert frames.stdout(daemon.logs(one, "stdout=1")) == b"out 1\nout 2\nout 3\n"
    assert frames.stderr(daemon.logs(one, "stderr=1")) == b"err 1\nerr 2\nerr 3\n"
    assert frames.stdout(daemon.logs(one, "stdout=1&tail=3")) == b"out 3\n"
    stamps = [
        line.split()[0].decode() for line in frames.stdout(daemon.logs(one, "stdout=1&timestamps=1")).splitlines()
    ]
    assert [len(stamp) for stamp in stamps] == [30] * 3
    second = f"{int(datetime.fromisoformat(stamps[1][:19] + '+00:00').timestamp())}.{stamps[1][20:29]}"
    assert frames.stdout(daemon.logs(one, f"stdout=1&since={second}")) == b"out 2\nout 3\n"
    assert frames.stdout(daemon.logs(one, f"stdout=1&until={second}")) == b"out 1\nout 2\n"
    assert daemon.logs(one, "stdout=1&tail=0") == b""


@pytest.mark.parametrize("compress", ["false", "true"])
def test_json_file_is_rotated_and_read_over_its_files(
    daemon: Daemon, container: Callable[..., str], compress: str
) -> None:
    """Every line once, in order, whether the older files are compressed or not."""
    script = "for i in 1 2 3 4 5 6 7 8; do seq ${i}000 ${i}150; read x; done"
    body = driver("json-file", max_size="15k", max_file="4", compress=compress)
    one = container("sh", "-c", script, OpenStdin=True, **body)
    daemon.begin(one)
    path = json_file(daemon, one)
    with attached(daemon, one, "stream=1&stdin=1") as connection:
        for turn in range(1, 9):
            until(lambda turn=turn: frames.stdout(daemon.logs(one, "stdout=1")).endswith(b"%d150\n" % turn))
            if compress == "true":  # while a file is being compressed there is no other rotation
                until(lambda: not Path(f"{path}.1").exists())
            connection.sendall(b"\n")
        daemon.wait(one)
    names = sorted(each.name.removeprefix(path.name) for each in path.parent.glob("*-json.log*"))
    if compress == "true":
        assert {".2.gz", ".3.gz"} < set(names)
        assert json.loads(gzip.decompress(Path(f"{path}.3.gz").read_bytes()).splitlines()[0])["stream"] == "stdout"
    else:
        assert names == ["", ".1", ".2", ".3"]
    numbers = [int(line) for line in frames.stdout(daemon.logs(one, "stdout=1")).split()]
    every = [number for turn in range(1, 9) for number in range(turn * 1000, turn * 1000 + 151)]
    assert numbers == every[-len(numbers) :]
    assert len(numbers) > 300
    assert [int(line) for line in frames.stdout(daemon.logs(one, "stdout=1&tail=250")).split()] == every[-250:]


def test_json_file_is_followed_over_rotations(daemon: Daemon, container: Callable[..., str]) -> None:
    """From before the first line to after the last, each once."""
    script = "for i in 1 2 3 4 5 6; do seq ${i}000 ${i}200; sleep 0.1; done"
    one = container("sh", "-c", script, **driver("json-file", max_size="10k", max_file="20"))
    daemon.begin(one)
    got = frames.stdout(daemon.logs(one, "stdout=1&follow=1"))
    assert [int(line) for line in got.split()] == [
        n for turn in range(1, 7) for n in range(turn * 1000, turn * 1000 + 201)
    ]


def test_json_file_that_dockerd_wrote_is_served(daemon: Daemon, container: Callable[..., str]) -> None:
    """Bytes captured from dockerd 20.10, with two older files of which one is compressed."""
    one = container("true", **driver("json-file"))
    daemon.begin(one)
    daemon.wait(one)
    path = json_file(daemon, one)
    path.write_bytes(
        b'{"log":"a\\u2028b\\u2029c\xc3\xa9\xf0\x9f\x98\x80\\ufffd\\n","stream":"stdout",'
        b'"time":"2026-11-22T00:30:16.551361079Z"}\n'
        b'{"log":"err1\\n","stream":"stderr","attrs":{"X":"1 \\u0026","a":"l=1,"},"time":"2026-11-22T00:30:17Z"}\n'
        b'{"log":"tail","stream":"stdout","time":"2026-11-22T00:30:17.5743971Z"}\n'
    )
    Path(f"{path}.1").write_bytes(b'{"log":"second\\n","stream":"stdout","time":"2026-11-22T00:30:16.4722149Z"}\n')
    older = b'{"log":"\\u0000\\u0009\\r\\"\\\\\\u003c\\n","stream":"stdout","time":"2026-11-22T00:30:15.47Z"}\n'
    Path(f"{path}.2.gz").write_bytes(gzip.compress(older))
    assert list(frames.split(daemon.logs(one, "stdout=1&stderr=1"))) == [
        (1, b'\0\t\r"\\<\n'),
        (1, b"second\n"),
        (1, "a\u2028b\u2029cé😀\ufffd\n".encode()),
        (2, b"err1\n"),
        (1, b"tail"),
    ]
    got = daemon.logs(one, "stdout=1&stderr=1&details=1&timestamps=1&tail=2")
    assert list(frames.split(got)) == [
        (2, b"2026-11-22T00:30:17.000000000Z X=1+%26,a=l%3D1%2C err1\n"),
        (1, b"2026-11-22T00:30:17.574397100Z  tail"),
    ]


def test_json_file_is_replayed_to_who_attaches_and_nothing_is_lost(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """Many who attach with `logs` while the container writes on: each gets every byte once."""
    script = "i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); [ $((i%200)) = 0 ] && sleep 0.02; done"
    script += "; while [ ! -e /all ]; do sleep 0.05; done; printf end"
    one = container("sh", "-c", script, **driver("json-file", max_size="50k", max_file="50"))
    daemon.begin(one)
    results: list[bytes] = []
    come = threading.Semaphore(0)

    def attend() -> None:
        with attached(daemon, one, "logs=1&stream=1&stdout=1") as connection:
            come.release()
            got = b""
            while data := connection.recv(65536):
                got += data
            results.append(frames.stdout(got))

    threads = [threading.Thread(target=attend) for _ in range(8)]
    for thread in threads:
        thread.start()
        time.sleep(0.03)
    assert all(come.acquire(timeout=60) for _ in threads)  # who attaches after the end waits for the next start
    execs.shell(daemon, one, "touch /all")
    for thread in threads:
        thread.join(60)
    wanted = b"".join(b"line %d\n" % number for number in range(4000)) + b"end"
    assert results == [wanted] * 8


def test_json_file_is_the_same_without_the_c_muxer(make_daemon: Callable[..., Daemon]) -> None:
    """Written, rotated, compressed, read and followed by the Python twins."""
    plain = make_daemon("--muxer", "python")
    plain.import_busybox()
    script = "for i in 1 2 3 4 5; do seq ${i}000 ${i}150; sleep 0.2; done; printf end"
    one = plain.create("sh", "-c", script, **driver("json-file", max_size="15k", max_file="9", compress="true"))
    plain.begin(one)
    got = frames.stdout(plain.logs(one, "stdout=1&follow=1"))
    assert got == b"".join(b"%d\n" % n for turn in range(1, 6) for n in range(turn * 1000, turn * 1000 + 151)) + b"end"
    assert frames.stdout(plain.logs(one, "stdout=1")) == got
    until(lambda: list(json_file(plain, one).parent.glob("*.gz")))


def test_json_file_goes_on_while_there_is_no_daemon(own_daemon: Daemon) -> None:
    """Nothing is lost by kill -9 of the daemon, and the next one reads all of it."""
    one = own_daemon.create("sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done", **driver("json-file"))
    own_daemon.begin(one)
    time.sleep(0.3)
    own_daemon.kill9()
    time.sleep(0.5)
    own_daemon.start()
    own_daemon.wait(one)
    assert frames.stdout(own_daemon.logs(one, "stdout=1")) == b"1\n2\n3\n4\n5\n6\n"
