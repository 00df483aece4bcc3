"""Answers that wait for something: they wake for it, for the end of their time, and for a client that hangs up."""

import os
import socket
import threading
import time

import pytest

from engine.daemon.api.streams import ClientGone

GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
HTTP_1_0 = b"GET /x HTTP/1.0\r\nHost: x\r\n\r\n"


@pytest.fixture
def bell():
    """A descriptor that is readable when it is rung."""
    descriptor = os.eventfd(0, os.EFD_NONBLOCK)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def waiting(connect, bell):
    """A client whose answer is a line for each result of a wait, until the wait ends by itself; and those results."""
    found = []
    over = threading.Event()

    def answer(request):
        with request.stream(200, "text/plain") as stream:
            try:
                for seconds in (None, 0.05, None):
                    found.append(request.wait(bell, seconds))
                    if found[-1]:
                        os.eventfd_read(bell)
                    stream.write(b"woken\n")
            except ClientGone:
                found.append("gone")
                raise
            finally:
                over.set()

    return connect(answer), found, over


def test_it_wakes_for_the_descriptor_and_for_its_time(waiting, bell):
    """True for the one, False for the other."""
    client, found, _ = waiting
    client.send(GET)
    client.head()
    os.eventfd_write(bell, 1)
    client.bytes(len(b"6\r\nwoken\n\r\n") * 2)
    assert found == [True, False]
    os.eventfd_write(bell, 1)
    assert client.bytes(len(b"6\r\nwoken\n\r\n0\r\n\r\n")).endswith(b"0\r\n\r\n")


@pytest.mark.alone
def test_it_ends_when_the_client_hangs_up(waiting):
    """At once, with nothing to wake for."""
    client, found, over = waiting
    client.send(GET)
    client.head()
    began = time.monotonic()
    client.socket.close()
    assert over.wait(5) and found == ["gone"]
    assert time.monotonic() - began < 2


def test_a_client_that_only_stops_sending_is_waited_for(waiting, bell):
    """A half-close is no hanging up."""
    client, found, _ = waiting
    client.send(GET)
    client.head()
    client.socket.shutdown(socket.SHUT_WR)
    time.sleep(0.1)
    assert found == []
    os.eventfd_write(bell, 1)
    assert client.bytes(len(b"6\r\nwoken\n\r\n")) == b"6\r\nwoken\n\r\n"


@pytest.mark.parametrize(("ask", "sent"), [(GET, b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"), (HTTP_1_0, b"onetwo")])
def test_pieces_that_are_sent_together_stay_pieces(connect, ask, sent):
    """Each is a chunk of its own, and nothing is sent for nothing."""

    def answer(request):
        with request.stream(200, "text/plain") as stream:
            stream.write_each([])
            stream.write_each([b"one", b"two"])

    client = connect(answer)
    client.send(ask)
    client.head()
    assert client.bytes(len(sent)) == sent
