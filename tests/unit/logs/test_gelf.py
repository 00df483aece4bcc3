"""The log driver gelf: what create and start refuse in dockerd's words, and its messages over UDP and TCP."""

import socket
import time

import pytest

from engine.errors import Invalid, SystemFailure
from engine.logs.attributes import Described
from engine.logs.drivers import gelf, gelfsender
from tests.harness.receivers import PATIENCE, gelf_message, unpacked_gelf

ONE = Described(
    *("ab" * 32, "name", "busybox:1", "sha256:" + "cd" * 32, ("A=1",), {"_l": "x", "m": "y"}),
    *("sh", ("-c", 'echo "<\t>"')),
    1_795_307_416_120_000_000,
)
NOW = 1_795_307_416_123_456_789


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "gelf-address is a required parameter"),
        ({"gelf-address": "http://h:1"}, "gelf: endpoint needs to be TCP or UDP"),
        ({"gelf-address": "udp://h"}, "gelf: please provide gelf-address as proto://host:port"),
        ({"gelf-address": "tcp://h:1", "gelf-compression-type": "gzip"}, "compression is only supported on UDP"),
        ({"gelf-address": "tcp://h:1", "gelf-compression-level": "1"}, "compression is only supported on UDP"),
        (
            {"gelf-address": "udp://h:1", "gelf-compression-type": "lz"},
            'unknown value "lz" for log opt "gelf-compression-type" for gelf log driver',
        ),
        (
            {"gelf-address": "udp://h:1", "gelf-compression-level": "10"},
            'unknown value "10" for log opt "gelf-compression-level" for gelf log driver',
        ),
        (
            {"gelf-address": "udp://h:1", "gelf-tcp-max-reconnect": "1"},
            '"gelf-tcp-max-reconnect" is only valid for TCP',
        ),
        (
            {"gelf-address": "tcp://h:1", "gelf-tcp-reconnect-delay": "-1"},
            '"gelf-tcp-reconnect-delay" must be a positive integer',
        ),
    ],
)
def test_create_refuses_in_dockerds_words(config, words):
    with pytest.raises(Invalid) as told:
        gelf.check(config)
    assert str(told.value) == words


def listening(kind):
    made = socket.socket(socket.AF_INET, kind)
    made.bind(("127.0.0.1", 0))
    made.settimeout(PATIENCE)
    if kind == socket.SOCK_STREAM:
        made.listen()
    return made


def sender(listener, **options):
    scheme = "udp" if listener.type == socket.SOCK_DGRAM else "tcp"
    config = {"gelf-address": f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", "labels": "_l,m", "env": "A"}
    config |= {name.replace("_", "-"): value for name, value in options.items()}
    gelf.check(config)
    return gelfsender.Sender(gelf.forward(config, ONE))


@pytest.mark.parametrize(
    "options",
    [{}, {"gelf_compression_type": "zlib"}, {"gelf_compression_type": "none"}, {"gelf_compression_level": "-1"}],
)
def test_a_message_says_all_of_its_container(options):
    with listening(socket.SOCK_DGRAM) as listener:
        sender(listener, **options).send(2, b'a "line"\t\xff', None, NOW)
        message = gelf_message(listener)
    assert message == {
        "version": "1.1",
        "host": socket.gethostname(),
        "short_message": 'a "line"\t\ufffd',
        "timestamp": 1795307416.123,
        "level": 3,
        "_command": 'sh -c echo "<\t>"',
        "_container_id": "ab" * 32,
        "_container_name": "name",
        "_created": "2026-11-22T00:30:16.12Z",
        "_image_id": "sha256:" + "cd" * 32,
        "_image_name": "busybox:1",
        "_tag": "ab" * 6,
        "_l": "x",
        "_m": "y",
        "_A": "1",
    }


@pytest.mark.parametrize("size", [0, 1000, 16384])
def test_a_long_message_goes_in_chunks_and_an_empty_one_not_at_all(size):
    with listening(socket.SOCK_DGRAM) as listener:
        one = sender(listener, gelf_compression_type="none")
        one.send(1, b"x" * size, None, NOW)
        one.send(1, b"last", None, NOW)
        said = [gelf_message(listener)["short_message"] for _ in range(2 if size else 1)]
    assert said == (["x" * size, "last"] if size else ["last"])


def test_datagrams_that_found_nobody_do_not_take_the_next_ones_with_them():
    with listening(socket.SOCK_DGRAM) as listener:
        one, port = sender(listener), listener.getsockname()[1]
    one.send(1, b"lost", None, NOW)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", port))
        listener.settimeout(PATIENCE)
        one.send(1, b"found", None, NOW)
        assert gelf_message(listener)["short_message"] == "found"


def test_over_tcp_a_message_ends_with_a_zero_byte():
    with listening(socket.SOCK_STREAM) as listener:
        one = sender(listener)
        one.send(1, b"one", None, NOW)
        one.send(2, b"two", None, NOW)
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as file:
            got = b""
            while got.count(b"\0") < 2:
                got += file.read1(65536)
    messages = [unpacked_gelf(each) for each in got.split(b"\0")[:-1]]
    assert [(each["short_message"], each["level"]) for each in messages] == [("one", 6), ("two", 3)]


def test_a_server_that_comes_back_gets_the_lines_after_that():
    with listening(socket.SOCK_STREAM) as listener:
        one, port = sender(listener, gelf_tcp_reconnect_delay="0"), listener.getsockname()[1]
        listener.accept()[0].close()
    one.send(1, b"lost", None, NOW)
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(PATIENCE)
        for number in range(3):  # the first of them may be what tells that the connection has broken
            one.send(1, b"%d" % number, None, NOW)
        connection, _ = listener.accept()
        with connection:
            assert b'"short_message":"2"' in connection.recv(65536)


def test_who_tries_in_vain_gives_up_after_as_many_attempts_as_are_asked_for():
    with listening(socket.SOCK_STREAM) as listener:
        one = sender(listener, gelf_tcp_reconnect_delay="0", gelf_tcp_max_reconnect="5")
        listener.accept()[0].close()
    begun = time.monotonic()
    for _ in range(3):
        one.send(1, b"lost", None, NOW)
    assert time.monotonic() - begun < PATIENCE


def test_a_server_that_is_not_there_is_told_in_dockerds_words():
    words = (
        r"^gelf: cannot connect to GELF endpoint: 127\.0\.0\.1:1 dial tcp 127\.0\.0\.1:1: connect: connection refused$"
    )
    with pytest.raises(SystemFailure, match=words):
        gelfsender.Sender(gelf.forward({"gelf-address": "tcp://127.0.0.1:1"}, ONE))
