"""Exchanges over HTTP with whoever answers: whole answers, answers in pieces, and those of hostile peers."""

import contextlib
import socket
import threading
import time

import pytest

from engine.asking import exchange

MOST = 1000


@pytest.fixture
def asked():
    """A function: an exchange whose peer has this answer, and a list with the request once it has come."""
    opened = []

    def make(*pieces, pause=0.0, close=True):
        ours, theirs = socket.socketpair()
        opened.extend((ours, theirs))
        seen = []

        def answer():
            got = b""
            while b"\r\n\r\n" not in got:
                if not (data := theirs.recv(65536)):
                    return
                got += data
            seen.append(got)
            for piece in pieces:
                try:
                    theirs.sendall(piece)
                except OSError:
                    return
                time.sleep(pause)
            if close:
                with contextlib.suppress(OSError):  # the other side has closed already
                    theirs.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=answer)
        thread.start()
        opened.append(thread)
        return exchange.Exchange(ours, "there"), seen

    yield make
    sockets = [each for each in opened if isinstance(each, socket.socket)]
    for each in sockets:
        with contextlib.suppress(OSError):  # it is closed
            each.shutdown(socket.SHUT_RDWR)
    for each in opened:
        if isinstance(each, threading.Thread):
            each.join()
    for each in sockets:
        each.close()


def ask(one, **how):
    """One request, whose answer has a second."""
    given = {"method": "POST", "path": "/p", "fields": {"A": "b"}, "body": b"xyz", "seconds": 5.0, "most": MOST, **how}
    return one.ask(**given)


def test_a_request_and_its_answer(asked):
    one, seen = asked(b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nX: y\r\n\r\n", b"ok", close=False)
    assert ask(one) == exchange.Answer(200, "Fine", b"ok")
    assert seen == [b"POST /p HTTP/1.1\r\nHost: there\r\nA: b\r\nContent-Length: 3\r\n\r\nxyz"]
    assert one.usable


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\no", b"k\r\n1;x=y\r\n!\r\n0\r\n\r\n"), b"ok!"),
        ((b"HTTP/1.0 200\r\n\r\n", b"to the ", b"end"), b"to the end"),
        ((b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",), b""),
        ((b"HTTP/1.1 204 No Content\r\n\r\n",), b""),
    ],
)
def test_each_form_of_a_body(asked, pieces, body):
    one, _ = asked(*pieces)
    assert ask(one).body == body


def test_a_connection_that_the_peer_closes_is_not_used_again(asked):
    one, _ = asked(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    ask(one)
    assert not one.usable


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad field: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20000,
    ],
)
def test_rubbish_is_refused(asked, answer):
    one, _ = asked(answer)
    with pytest.raises(exchange.Malformed):
        ask(one)
    assert not one.usable


def test_of_a_long_answer_the_beginning_can_be_enough(asked):
    one, _ = asked(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"x" * 5000)
    assert ask(one, cut=True).body == b"x" * MOST
    assert not one.usable


def test_who_sends_a_byte_now_and_then_does_not_outlast_the_time(asked):
    one, _ = asked(*[b"H"] * 200, pause=0.02)
    begun = time.monotonic()
    with pytest.raises((exchange.Late, TimeoutError)):
        ask(one, seconds=0.3)
    assert time.monotonic() - begun < 3


def test_who_says_nothing_does_not_outlast_the_time(asked):
    one, _ = asked(close=False)
    with pytest.raises(TimeoutError):
        ask(one, seconds=0.2)


def test_a_line_end_in_a_field_makes_no_second_field(asked):
    one, _ = asked(close=False)
    with pytest.raises(exchange.Malformed, match="line end"):
        ask(one, fields={"Authorization": "x\r\nB: y"})
