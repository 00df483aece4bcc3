"""What a daemon tells the proxy, and what it answers; any bytes; when it ends; and that both versions say the same."""

import contextlib
import errno
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import _muxer
from engine.dataclass import replace
from engine.wire import endpoint, leads
from engine.wire.leads import Lead, Word
from tests.harness.descriptors import none_left
from tests.unit.proxy.carrier import PATIENCE, WEB, Carrier, client, host, lead_to, process, server
from tests.unit.proxy.test_streams import EXAMPLES

NOWHERE = Lead("tcp", "127.0.0.1", 9)


def test_the_next_daemon_is_told_what_leads_where(carry: Callable[..., Carrier]) -> None:
    """A part at a time, with the sockets; connections go on meanwhile."""
    carrier = carry()
    with host() as outside, server() as inside:
        assert carrier.lead([(outside, lead_to(inside))], container="b" * 64, run=7) == 0
        sockets = [host() for _ in range(70)]
        many = [(sock, replace(NOWHERE, port=number)) for number, sock in enumerate(sockets, 1)]
        assert carrier.lead(many[: leads.MOST]) == 0 and carrier.lead(many[leads.MOST :]) == 0
        with client(outside) as asking, inside.accept()[0] as answering:
            carrier.reconnect()
            asking.sendall(b"still")
            assert answering.recv(10) == b"still"
        found: dict[tuple[str, int], list[tuple[int, Lead]]] = {}
        serial = skipped = 0
        while True:
            socket.send_fds(carrier.link, [leads.pack(Word(leads.TELLS, number=serial, run=skipped))], [])
            word, descriptors = carrier.receive()
            if word.mark != leads.LEADS:
                break
            assert len(descriptors) == len(word.leads)
            skipped = len(word.leads) + (skipped if word.number == serial else 0)
            serial = word.number
            for descriptor, lead in zip(descriptors, word.leads, strict=True):
                with socket.socket(fileno=descriptor) as sock:
                    found.setdefault((word.container, word.run), []).append((sock.getsockname()[1], lead))
        assert word == Word(leads.ANSWERS, number=errno.ENOENT)
        assert found == {
            ("b" * 64, 7): [(outside.getsockname()[1], lead_to(inside))],
            (WEB, 1): [(sock.getsockname()[1], lead) for sock, lead in many],
        }
        for sock in sockets:
            sock.close()


def test_what_is_dropped_leads_nowhere_and_is_free(carry: Callable[..., Carrier]) -> None:
    """Its connections are reset; a word about another run changes nothing."""
    carrier = carry()
    outside = host()
    with server() as inside:
        assert carrier.lead([(outside, lead_to(inside))], run=3) == 0
        with client(outside) as asking, inside.accept()[0] as answering:
            place = outside.getsockname()
            outside.close()
            assert carrier.ask(Word(leads.DROPS, WEB, 2)).number == 0
            asking.sendall(b"still")
            assert answering.recv(10) == b"still"
            assert carrier.ask(Word(leads.DROPS, WEB, 3)).number == 0
            with pytest.raises(ConnectionResetError):
                asking.recv(10)
        with socket.socket(socket.AF_INET6) as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(place)


def test_a_socket_that_the_daemon_keeps_may_lead_elsewhere_later(carry: Callable[..., Carrier]) -> None:
    """What comes to it meanwhile is not the proxy's: it waits for the next container."""
    carrier = carry()
    with host() as outside, server() as one, server() as other:
        for _ in range(3):
            assert carrier.lead([(outside, lead_to(one))]) == 0
            assert carrier.ask(Word(leads.DROPS, WEB)).number == 0
            with client(outside) as asking:
                assert carrier.ask(Word(leads.TELLS)).number == errno.ENOENT
                assert carrier.lead([(outside, lead_to(other))], container="b" * 64) == 0
                with other.accept()[0] as answering:
                    answering.sendall(b"here")
                    assert asking.recv(10) == b"here"
            assert carrier.ask(Word(leads.DROPS, "b" * 64)).number == 0


def test_a_container_that_has_ended_is_dropped_with_nobody_to_say_so(carry: Callable[..., Carrier]) -> None:
    """The proxy sees the end of its process 1."""
    carrier = carry()
    with server() as inside, host() as outside, process() as one:
        assert carrier.lead([(outside, lead_to(inside))], pid=one.pid) == 0
        with client(outside) as asking, inside.accept()[0]:
            one.kill()
            with pytest.raises(ConnectionResetError):
                asking.recv(10)
        assert carrier.ask(Word(leads.TELLS)).number == errno.ENOENT


def test_another_run_takes_the_place_of_the_one_before(carry: Callable[..., Carrier]) -> None:
    carrier = carry()
    with server() as inside, host() as before, host() as after:
        assert carrier.lead([(before, lead_to(inside))], run=1) == 0
        assert carrier.lead([(after, lead_to(inside))], run=2) == 0
        word = carrier.ask(Word(leads.TELLS))
        assert (word.run, len(word.leads)) == (2, 1)


def test_more_than_there_is_room_for_is_refused(carry: Callable[..., Carrier]) -> None:
    """All of it; what is served already is not touched."""
    carrier = carry(leads=3)
    with contextlib.ExitStack() as stack:
        ways = [(stack.enter_context(host()), NOWHERE) for _ in range(4)]
        assert carrier.lead(ways[:2]) == 0
        assert carrier.lead(ways[2:]) == errno.EMFILE
        assert carrier.lead(ways[2:3], container="b" * 64) == 0
        assert len(carrier.ask(Word(leads.TELLS)).leads) == 2


def test_what_is_no_socket_of_that_kind_is_refused(carry: Callable[..., Carrier]) -> None:
    """Descriptors are looked at before anything is done with them, and closed."""
    carrier = carry()
    with host() as good, host(socket.SOCK_DGRAM) as datagrams, open("/dev/null") as file:
        unix = socket.socket(socket.AF_UNIX)
        with none_left():
            for wrong in (datagrams, file, unix):
                assert carrier.lead([(good, NOWHERE), (wrong, NOWHERE)]) == errno.EINVAL
            told = leads.pack(Word(leads.LEADS, WEB, 1, leads=(NOWHERE,)))
            assert carrier.say(told, (good.fileno(),)).number == errno.EINVAL
            assert carrier.say(told, (good.fileno(),) * 3).number == errno.EINVAL
            assert carrier.ask(Word(leads.TELLS)).number == errno.ENOENT
        unix.close()


def test_it_ends_when_it_serves_nobody(version: str, tmp_path: Path) -> None:
    """At once without a daemon, after a while with one; and a later daemon finds no socket."""
    one = Carrier(version, tmp_path)
    with host() as outside, process() as container:
        assert one.lead([(outside, NOWHERE)], pid=container.pid) == 0
        one.link.close()
        with contextlib.closing(endpoint.connect(str(tmp_path), PATIENCE, endpoint.PROXY)):
            container.kill()
    one.ended()
    other = Carrier(version, tmp_path, linger_ms=20)
    assert other.link.recv(10) == b""
    other.ended()
    other.link.close()


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Carrier, Carrier]]:
    """A proxy of each version."""
    if not _muxer.built():
        pytest.skip("the C muxer is not built: python3 -m _muxer.build")
    with contextlib.ExitStack() as stack:
        homes = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        yield pair(stack, homes)


def pair(stack: contextlib.ExitStack, homes: list[Path]) -> tuple[Carrier, Carrier]:
    """One of each version."""
    return stack.enter_context(Carrier("python", homes[0])), stack.enter_context(Carrier("c", homes[1]))


MARKS = st.sampled_from([b"L", b"D", b"T", b"A", b"G", b"X", b"\0"])
NUMBERS = st.sampled_from([(6, 4), (6, 6), (17, 4), (17, 6), (0, 4), (132, 6), (6, 0), (17, 9)])
RECORDS = st.tuples(NUMBERS, st.binary(min_size=18, max_size=18))
WORDS = st.tuples(
    MARKS,
    st.sampled_from([1, 1, 1, 1, 0, 2]),
    st.integers(0, 3),
    st.sampled_from([0, 0, 1, 65]),
    st.binary(min_size=12, max_size=12),
    st.sampled_from([b"a" * 64, b"b" * 64, bytes(64), b"\xff" * 64]),
    st.lists(RECORDS, max_size=3),
    st.lists(st.sampled_from(["tcp", "udp", "pidfd", "file"]), max_size=4),
    st.booleans(),
)


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, int]]:
    """Descriptors of several kinds."""
    with host() as tcp, host(socket.SOCK_DGRAM) as udp, open("/dev/null") as file:
        pidfd = os.pidfd_open(os.getpid())
        yield {"tcp": tcp.fileno(), "udp": udp.fileno(), "file": file.fileno(), "pidfd": pidfd}
        os.close(pidfd)


@settings(max_examples=EXAMPLES * 5, deadline=None)
@given(st.one_of(WORDS, st.binary(min_size=1, max_size=1500)))
def test_any_bytes_are_answered_alike(both: tuple[Carrier, Carrier], made: dict[str, int], said: bytes | tuple) -> None:
    """By both versions, with the same words."""
    descriptors: tuple[int, ...] = ()
    if isinstance(said, tuple):
        mark, form, count, more, rest, container, records, kinds, fits = said
        body = b"".join(bytes(numbers) + data for numbers, data in records)
        number = len(records) if fits else count + more
        data = mark + bytes((form,)) + number.to_bytes(2, sys.byteorder) + rest + container + body
        wanted = ["udp" if numbers[0] == 17 else "tcp" for numbers, _ in records] + ["pidfd"] if fits else kinds
        descriptors = tuple(map(made.__getitem__, wanted))
    else:
        data = said
    answers = [each.say(data, descriptors) for each in both]
    assert answers[0] == answers[1]
