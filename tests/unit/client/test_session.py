"""An attached session over socket pairs and pipes: nothing lost, nothing stuck, signals seen."""

import os
import signal
import socket
import struct
import threading

import pytest

from engine.client.session import Session, caught
from engine.client.terminal import DetachKeys

BIG = 8 * 1024 * 1024


class Ends:
    """The far ends of a session: the container's connection, the user's stdin, the wait for the container's end."""

    def __init__(self):
        self.near, self.container = socket.socketpair()
        self.stdin, self.typed = os.pipe()
        self.ended, self.end = os.pipe()
        self.open = {self.stdin, self.typed, self.ended, self.end}

    def close(self, fd):
        self.open.discard(fd)
        os.close(fd)

    def session(self, **named):
        settings = {"first": b"", "tty": True, "stdin": self.stdin} | named
        return Session(self.near, **settings)

    def run(self, session, on_signal=None, signals=()):
        with caught(signals) as reader:
            return session.run(self.ended, reader, on_signal)


@pytest.fixture
def ends():
    made = Ends()
    yield made
    made.container.close()
    made.near.close()
    for fd in made.open:
        os.close(fd)


def frame(stream, data):
    return struct.pack(">BxxxL", stream, len(data)) + data


def finish(ends):
    ends.container.close()
    ends.close(ends.end)


def test_frames_go_to_stdout_and_stderr_with_what_was_read_before(ends, capfdbinary):
    data = frame(1, b"out") + frame(2, b"err")
    ends.container.sendall(data[5:])
    session = ends.session(first=data[:5], tty=False, stdin=None)
    finish(ends)
    assert ends.run(session) is True
    assert capfdbinary.readouterr() == (b"out", b"err")


def test_the_end_of_input_is_a_half_close_and_output_goes_on(ends, capfdbinary):
    def container():
        received = b""
        while piece := ends.container.recv(100):
            received += piece
        ends.container.sendall(received.upper())
        finish(ends)

    os.write(ends.typed, b"hello")
    ends.close(ends.typed)
    thread = threading.Thread(target=container)
    thread.start()
    assert ends.run(ends.session()) is True
    thread.join()
    assert capfdbinary.readouterr().out == b"HELLO"


def test_more_input_than_the_container_takes_never_holds_up_its_output(ends, capfdbinary):
    """The far end writes everything before it reads anything: a client that blocks in a write would stand still."""
    source = os.memfd_create("input")
    os.truncate(source, BIG)
    received = []

    def container():
        ends.container.sendall(b"x" * BIG)
        while piece := ends.container.recv(1 << 20):
            received.append(len(piece))
        finish(ends)

    thread = threading.Thread(target=container)
    thread.start()
    assert ends.run(ends.session(stdin=source)) is True
    thread.join()
    os.close(source)
    assert sum(received) == BIG
    assert len(capfdbinary.readouterr().out) == BIG


def test_a_container_that_closes_its_input_is_still_heard(ends, capfdbinary):
    ends.container.shutdown(socket.SHUT_RD)
    ends.container.sendall(b"bye")
    os.write(ends.typed, b"unwanted")
    finish(ends)
    assert ends.run(ends.session()) is True
    assert capfdbinary.readouterr().out == b"bye"


def test_a_session_waits_for_the_end_after_the_output(ends):
    ends.container.close()
    waiter = threading.Timer(0.05, lambda: ends.close(ends.end))
    waiter.start()
    assert ends.run(ends.session(stdin=None)) is True
    assert ends.end not in ends.open
    waiter.join()


def test_the_detach_keys_leave_and_what_stood_before_them_is_sent(ends):
    os.write(ends.typed, b"ls\x10\x11rm")
    assert ends.run(ends.session(detach=DetachKeys())) is False
    assert ends.container.recv(100) == b"ls"
    assert ends.container.recv(100) == b""


def test_a_signal_is_given_on_and_the_session_goes_on(ends):
    seen = []

    def on_signal(number):
        seen.append(number)
        finish(ends)

    before = signal.getsignal(signal.SIGUSR1)
    with caught([signal.SIGUSR1]) as reader:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert ends.session(stdin=None).run(ends.ended, reader, on_signal) is True
    assert seen == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) == before
