"""The log driver fluentd: what create refuses in dockerd's words, and its events at a server of that protocol."""

import socket
import time

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid, SystemFailure
from engine.logs.attributes import Described
from engine.logs.drivers import fluentd, fluentsender
from engine.logs.drivers import msgpack as ours
from tests.harness import receivers
from tests.harness.receivers import PATIENCE

ONE = Described("ab" * 32, "name", "busybox:1", "sha256:" + "cd" * 32, ("A=1",), {"l": "x", "source": "me"})
NOW = 1_795_307_416_123_456_789


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("address", "http://h", "invalid fluentd-address (http://h): unsupported scheme: 'http'"),
        ("address", "unix://", "invalid fluentd-address (unix://): path is empty"),
        ("address", "tcp://h/p", "invalid fluentd-address (tcp://h/p): should not contain a path element"),
        (
            "address",
            "h:70000",
            'invalid fluentd-address (h:70000): invalid port: strconv.ParseUint: parsing "70000": value out of range',
        ),
        ("buffer-limit", "x", "invalid size: 'x'"),
        ("retry-wait", "x", 'time: invalid duration "x"'),
        ("max-retries", "-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
        ("max-retries", "4294967295", "invalid fluentd-max-retries: value out of range"),
        ("async", "x", 'strconv.ParseBool: parsing "x": invalid syntax'),
        (
            "async-reconnect-interval",
            "1ms",
            'invalid value for fluentd-async-reconnect-interval: value ("1ms") must be between 100ms and 10s',
        ),
        (
            "write-timeout",
            "-1s",
            "invalid value for fluentd-write-timeout: value must be a duration that is non-negative",
        ),
        (
            "read-timeout",
            "x",
            'invalid value for fluentd-read-timeout: value must be a duration: time: invalid duration "x"',
        ),
    ],
)
def test_create_refuses_in_dockerds_words(name, value, words):
    with pytest.raises(Invalid) as told:
        fluentd.check({f"fluentd-{name}": value})
    assert str(told.value) == words


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("tcp", "127.0.0.1:24224")),
        ("h", ("tcp", "h:24224")),
        ("tcp://:5", ("tcp", "127.0.0.1:5")),
        ("tls://[::1]:5", ("tls", "[::1]:5")),
        ("unix:///a/b", ("unix", "/a/b")),
    ],
)
def test_an_address_is_completed(text, address):
    assert fluentd._address(text) == address


texts = st.text(max_size=300)


@given(st.dictionaries(texts, st.binary(max_size=70000), max_size=20), st.integers(0, 2**32 * 10**9 - 1))
def test_what_is_packed_is_unpacked_by_others(values, time_ns):
    data = ours.array(ours.table({name: ours.text(value) for name, value in values.items()}), ours.moment(time_ns))
    table, moment = msgpack.unpackb(data, raw=True, strict_map_key=False)
    assert table == {name.encode(): value for name, value in values.items()}
    assert (moment.code, int.from_bytes(moment.data[:4]), int.from_bytes(moment.data[4:])) == (
        0,
        *divmod(time_ns, 10**9),
    )


@given(st.binary(max_size=40), st.integers(0, 60))
def test_an_acknowledgement_is_read_once_it_is_whole(identity, cut):
    whole = msgpack.packb({"ack": identity.decode("latin-1")})
    assert ours.acknowledged(whole) == identity.decode("latin-1").encode()
    if cut < len(whole):
        assert ours.acknowledged(whole[:cut]) == b""


def listening():
    return socket.create_server(("127.0.0.1", 0))


def sender(listener, **options):
    config = {"fluentd-address": f"tcp://127.0.0.1:{listener.getsockname()[1]}", "labels": "l", "env": "A"}
    config |= {f"fluentd-{name.replace('_', '-')}": value for name, value in options.items()}
    fluentd.check(config)
    made = fluentsender.Sender(fluentd.forward(config, ONE))
    made.begin()
    return made


@pytest.mark.parametrize("acknowledged", ["", "true"])
def test_an_event_says_all_of_its_line(acknowledged):
    listener = listening()
    with receivers.fluentd(listener) as arrivals:
        one = sender(listener, request_ack=acknowledged)
        one.send(1, b"out\xff", None, NOW)
        one.send(2, b"", ("id", 2, True), NOW)
        first, second = arrivals.take(2)
        one.end()
    shared = {"container_id": "ab" * 32, "container_name": "/name", "A": "1", "l": "x"}
    assert first[:3] == ("ab" * 6, NOW // 10**9, {"source": "stdout", "log": "out\ufffd", **shared})
    partial = {"message": "true", "id": "id", "ordinal": "2", "last": "true"}
    told = {"source": "stderr", "log": "", **shared, **{f"partial_{name}": value for name, value in partial.items()}}
    assert second[2] == told
    assert ("chunk" in first[3]) is bool(acknowledged)


def test_a_time_can_be_exact():
    listener = listening()
    with receivers.fluentd(listener) as arrivals:
        sender(listener, sub_second_precision="true").send(1, b"x", None, NOW)
        [(_, moment, _, _)] = arrivals.take()
    assert (moment.code, moment.data) == (0, (NOW // 10**9).to_bytes(4, "big") + (NOW % 10**9).to_bytes(4, "big"))


def test_an_event_that_is_not_acknowledged_is_sent_again():
    listener = listening()
    with receivers.fluentd(listener, lost=2) as arrivals:
        one = sender(listener, request_ack="true", retry_wait="10ms")
        one.send(1, b"again", None, NOW)
        [(_, _, record, _)] = arrivals.take()
    assert record["log"] == "again"


@pytest.mark.parametrize("rubbish", [b"\xff" * 2000, b"\x81\xa3ack\xa1x", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100])
def test_rubbish_acknowledges_nothing(rubbish):
    listener = listening()
    with receivers.fluentd(listener, rubbish=rubbish) as arrivals:
        one = sender(listener, request_ack="true", retry_wait="1ms", max_retries="3", read_timeout="500ms")
        one.send(1, b"x", None, NOW)
        assert len(arrivals.take(4)) == 4


def test_who_never_reads_holds_up_nobody_for_longer_than_the_options_say():
    with listening() as listener:
        one = sender(listener, write_timeout="50ms", retry_wait="1ms", max_retries="1")
        begun = time.monotonic()
        for _ in range(3):
            one.send(1, b"x" * 16 * 1024 * 1024, None, NOW)
        assert time.monotonic() - begun < PATIENCE


def test_asynchronous_lines_wait_for_a_server_that_comes_later():
    with listening() as reserved:
        port = reserved.getsockname()[1]
        one = sender(reserved, **{"async": "true"}, retry_wait="10ms")
    for number in range(5):
        one.send(1, b"%d" % number, None, NOW)
    listener = socket.create_server(("127.0.0.1", port))
    with receivers.fluentd(listener) as arrivals:
        assert [record["log"] for _, _, record, _ in arrivals.take(5)] == list("01234")
        one.end()


def test_asynchronous_lines_that_find_no_room_are_lost():
    with listening() as reserved:
        port = reserved.getsockname()[1]
        one = sender(reserved, **{"async": "true"}, retry_wait="300ms", buffer_limit="2")
    one.send(1, b"0", None, NOW)
    while one._ring._count:  # until the thread that sends has taken it out
        time.sleep(0.002)
    for number in range(1, 50):
        one.send(1, b"%d" % number, None, NOW)
    listener = socket.create_server(("127.0.0.1", port))
    with receivers.fluentd(listener) as arrivals:
        assert [record["log"] for _, _, record, _ in arrivals.take(3)] == ["0", "1", "2"]
        one.end()
        assert arrivals._queue.empty()


def test_a_connection_can_be_renewed_now_and_then():
    listener = listening()
    with receivers.fluentd(listener) as arrivals:
        one = sender(listener, **{"async": "true"}, async_reconnect_interval="100ms")
        one.send(1, b"one", None, NOW)
        arrivals.take()
        first = one._socket
        time.sleep(0.15)
        one.send(1, b"two", None, NOW)
        arrivals.take()
        assert one._socket is not first
        one.end()


def test_a_server_that_is_not_there_is_told_in_dockerds_words():
    with pytest.raises(SystemFailure, match=r"^dial tcp 127\.0\.0\.1:1: connect: connection refused$"):
        fluentsender.Sender(fluentd.forward({"fluentd-address": "127.0.0.1:1"}, ONE))
