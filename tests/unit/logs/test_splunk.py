"""The log driver splunk: what a start refuses in dockerd's words, and its events at an event collector."""

import socket
import ssl
import time
from pathlib import Path

import pytest

from engine.errors import Invalid, SystemFailure
from engine.logs.attributes import Described
from engine.logs.drivers import splunk, splunksender
from tests.harness import receivers

CERTIFICATES = Path(__file__).resolve().parents[1] / "api" / "certificates"
ONE = Described("ab" * 32, "name", "busybox:1", "sha256:" + "cd" * 32, ("A=1",), {"l": "x"})
NOW = 1_795_307_416_123_456_789
GIVEN = {"splunk-url": "http://h:1", "splunk-token": "t"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "splunk: splunk-url is expected"),
        ({"splunk-url": "http://h:1"}, "splunk: splunk-token is expected"),
        ({"splunk-url": "h:1"}, "splunk: expected format scheme://dns_name_or_ip:port for splunk-url"),
        ({"splunk-url": "ftp://h:1"}, "splunk: expected format scheme://dns_name_or_ip:port for splunk-url"),
        ({"splunk-url": "http://h:1/p"}, "splunk: expected format scheme://dns_name_or_ip:port for splunk-url"),
        ({"splunk-url": "http://h:x"}, "splunk: failed to parse http://h:x as url value in splunk-url"),
        (
            {**GIVEN, "splunk-format": "x"},
            "unknown format specified x, supported formats are inline, json and raw",
        ),
        (
            {**GIVEN, "splunk-gzip-level": "11"},
            "not supported level '11' for splunk-gzip-level (supported values between -1 and 9)",
        ),
        ({**GIVEN, "splunk-gzip": "x"}, 'strconv.ParseBool: parsing "x": invalid syntax'),
    ],
)
def test_a_start_refuses_in_dockerds_words(config, words):
    splunk.check(config)
    with pytest.raises(Invalid) as told:
        splunk.forward(config, ONE)
    assert str(told.value) == words


@pytest.fixture
def often(monkeypatch):
    """Posts come soon, by the variables that dockerd has for it."""
    monkeypatch.setenv("SPLUNK_LOGGING_DRIVER_POST_MESSAGES_FREQUENCY", "50ms")


def sender(listener, **options):
    return sender_to(f"http://127.0.0.1:{listener.getsockname()[1]}", **options)


def sender_to(url, **options):
    config = {"splunk-url": url, "splunk-token": "secret"}
    config |= {
        name if name in ("tag", "labels", "env") else f"splunk-{name.replace('_', '-')}": value
        for name, value in options.items()
    }
    made = splunksender.Sender(splunk.forward(config, ONE))
    made.begin()
    return made


def events(arrivals, count):
    """The events of as many posts as have so many."""
    found = []
    while len(found) < count:
        [(_, _, _, more)] = arrivals.take()
        found += more
    return found


def test_an_event_says_all_of_its_line(often):
    listener = socket.create_server(("127.0.0.1", 0))
    with receivers.splunk(listener) as arrivals:
        one = sender(listener, source="s", sourcetype="st", index="main", labels="l", env="A")
        one.send(2, b'a "line"\xff', None, NOW)
        asked, posted = arrivals.take(2)
        one.end()
    assert asked[:2] == ("OPTIONS", "/services/collector/event/1.0")
    assert posted[:2] == ("POST", "/services/collector/event/1.0")
    assert posted[2]["Authorization"] == "Splunk secret"
    assert posted[3] == [
        {
            "event": {"line": 'a "line"\ufffd', "source": "stderr", "tag": "ab" * 6, "attrs": {"A": "1", "l": "x"}},
            "time": "1795307416.123456",
            "host": socket.gethostname(),
            "source": "s",
            "sourcetype": "st",
            "index": "main",
        }
    ]


@pytest.mark.parametrize(
    ("form", "tag", "lines", "told"),
    [
        ("inline", "", [b'{"a":1}'], [{"line": '{"a":1}', "source": "stdout"}]),
        (
            "json",
            "",
            [b' {"a": 1} ', b"[", b"NaN", b"1\0", b"9" * 5000, b"[" * 5000],
            [
                {"line": {"a": 1}, "source": "stdout"},
                {"line": "[", "source": "stdout"},
                {"line": "NaN", "source": "stdout"},
                {"line": "1\0", "source": "stdout"},
                None,
                {"line": "[" * 5000, "source": "stdout"},
            ],
        ),
        ("raw", "t", [b"one", b"  ", b"", b"two"], ["t one", "t two"]),
        ("raw", "", [b"one"], ["one"]),
    ],
)
def test_each_form_of_an_event(often, form, tag, lines, told):
    listener = socket.create_server(("127.0.0.1", 0))
    with receivers.splunk(listener) as arrivals:
        one = sender(listener, format=form, tag=tag, verify_connection="false")
        for line in lines:
            if line != b"9" * 5000:  # which the receiver's own JSON refuses
                one.send(1, line, None, NOW)
        wanted = [each for each in told if each is not None]
        assert [each["event"] for each in events(arrivals, len(wanted))] == wanted
        one.end()


def test_a_post_is_compressed_and_has_a_channel_where_that_is_asked_for(often):
    listener = socket.create_server(("127.0.0.1", 0))
    with receivers.splunk(listener) as arrivals:
        one = sender(listener, gzip="true", gzip_level="9", index_acknowledgment="true", verify_connection="0")
        one.send(1, b"x", None, NOW)
        [(_, _, headers, [event])] = arrivals.take()
        one.end()
    assert event["event"]["line"] == "x"
    assert headers["Content-Encoding"] == "gzip"
    assert len(headers["X-Splunk-Request-Channel"]) == 36


def test_what_is_refused_waits_for_another_attempt(often):
    listener = socket.create_server(("127.0.0.1", 0))
    with receivers.splunk(listener, busy=2) as arrivals:
        one = sender(listener, verify_connection="false")
        for number in range(3):
            one.send(1, b"%d" % number, None, NOW)
        assert [each["event"]["line"] for each in events(arrivals, 3)] == ["0", "1", "2"]
        one.end()


def test_the_oldest_are_lost_when_too_many_wait(often, monkeypatch):
    monkeypatch.setenv("SPLUNK_LOGGING_DRIVER_POST_MESSAGES_BATCH_SIZE", "2")
    monkeypatch.setenv("SPLUNK_LOGGING_DRIVER_BUFFER_MAX", "4")
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
        one = sender(reserved, verify_connection="false")
    for number in range(10):
        one.send(1, b"%d" % number, None, NOW)
    while one._queue.qsize():
        time.sleep(0.01)
    listener = socket.create_server(("127.0.0.1", port))
    with receivers.splunk(listener) as arrivals:
        one.send(1, b"last", None, NOW)
        one.end()
        got = [arrivals._queue.get_nowait()[3] for _ in range(arrivals._queue.qsize())]
    lines = [event["event"]["line"] for post in got for event in post]
    assert lines[-1] == "last"
    assert len(lines) <= 6


def test_what_waits_is_posted_at_the_end():
    listener = socket.create_server(("127.0.0.1", 0))
    with receivers.splunk(listener) as arrivals:
        one = sender(listener)
        one.send(1, b"x", None, NOW)
        one.end()
        assert [each[0] for each in arrivals.take(2)] == ["OPTIONS", "POST"]


def test_a_collector_that_answers_something_else_is_told_in_dockerds_words():
    listener = socket.create_server(("127.0.0.1", 0))
    with receivers.splunk(listener, verified=403):
        with pytest.raises(SystemFailure, match=r"^splunk: failed to verify connection - 403 Forbidden - said by the "):
            sender(listener)


def test_a_collector_that_is_not_there_is_told_in_dockerds_words():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    words = (
        rf'^Options "http://127\.0\.0\.1:{port}/services/collector/event/1\.0":'
        rf" dial tcp 127\.0\.0\.1:{port}: connect: connection refused$"
    )
    with pytest.raises(SystemFailure, match=words):
        splunksender.Sender(splunk.forward({**GIVEN, "splunk-url": f"http://127.0.0.1:{port}"}, ONE))


@pytest.mark.parametrize(
    "options",
    [{"capath": str(CERTIFICATES / "ca.pem")}, {"insecureskipverify": "true"}],
)
def test_over_tls(often, options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    with receivers.splunk(listener, context=context) as arrivals:
        one = sender_to(url, **options)
        one.send(1, b"x", None, NOW)
        assert [each[0] for each in arrivals.take(2)] == ["OPTIONS", "POST"]
        one.end()


@pytest.mark.parametrize("options", [{}, {"capath": str(CERTIFICATES / "ca.pem"), "caname": "elsewhere.example"}])
def test_a_certificate_that_is_not_believed(options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    with receivers.splunk(listener, context=context):
        with pytest.raises(SystemFailure, match="tls: failed to verify certificate: x509: "):
            sender_to(url, **options)


def test_a_collector_that_says_rubbish_is_no_collector():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection):
            connection.recv(65536)
            connection.sendall(b"\0" * 100)

        with receivers.accepting(listener, serve):
            with pytest.raises(SystemFailure, match="transport connection broken"):
                sender(listener)


def test_the_time_between_posts_is_waited_for_only_while_something_waits(often):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = sender(listener, verify_connection="false")
        begun = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - begun < 0.2
        one.end()
