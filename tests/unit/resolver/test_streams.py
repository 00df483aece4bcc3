"""One connection's queries: asked one behind the other however they come, and answered however they are taken."""

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.resolver.loop import Loop
from engine.resolver.streams import Stream

MESSAGES = [bytes((number,)) * 20 for number in range(1, 90)]


class Line:
    """A stream, its other end, what was asked and whether it has ended. late: answers are not given at once"""

    def __init__(self, late: bool = False) -> None:
        self.loop = Loop(lambda: True)
        self.client, own = socket.socketpair()
        own.setblocking(False)
        self.client.settimeout(5.0)
        self.asked: list[bytes] = []
        self.ended = 0
        self.late = late
        self.stream = Stream(self.loop, own, self._ask, self._end)

    def _ask(self, stream: Stream, message: bytes) -> None:
        self.asked.append(message)
        if not self.late:
            stream.reply(message[::-1])

    def _end(self, _: Stream) -> None:
        self.ended += 1

    def turn(self, until: object = None) -> None:
        """Let the loop work until this is so; or as long as there is anything to do."""
        self.loop.ended = False
        check = until or (lambda: False)

        def look() -> None:
            self.loop.ended = True

        for _ in range(1000):
            self.loop.ended = False
            self.loop.after(0.0, look)
            self.loop.run()
            if check():
                return

    def close(self) -> None:
        """Both ends."""
        self.stream.close()
        self.client.close()


@pytest.fixture
def line() -> Iterator[Line]:
    """A stream whose queries are answered at once."""
    made = Line()
    yield made
    made.close()


def framed(*messages: bytes) -> bytes:
    """Each behind its length."""
    return b"".join(len(each).to_bytes(2, "big") + each for each in messages)


@given(st.lists(st.integers(1, 400), max_size=12))
def test_queries_are_asked_in_their_order_wherever_they_are_cut(cuts):
    line = Line()
    data, expected = framed(*MESSAGES[:10]), framed(*MESSAGES[:10])
    for cut in cuts:
        line.client.send(data[:cut])
        data = data[cut:]
        line.turn(lambda: True)
    line.client.send(data)
    line.turn(lambda: len(line.asked) == 10)
    assert line.asked == MESSAGES[:10]
    answers = b""
    while len(answers) < len(expected):
        answers += line.client.recv(65536)
    assert answers == expected
    line.close()


def test_the_next_is_asked_when_the_last_is_answered():
    line = Line(late=True)
    line.client.send(framed(*MESSAGES[:3]))
    for number in range(3):
        line.turn(lambda number=number: len(line.asked) == number + 1)
        assert line.asked == MESSAGES[: number + 1]
        line.stream.reply(b"answer")
        assert line.client.recv(100) == framed(b"answer")
    line.close()


def test_many_at_once_do_not_nest_and_leave_turns_to_others(line: Line):
    line.client.send(framed(*MESSAGES))
    line.turn(lambda: len(line.asked) >= 1)
    assert len(line.asked) < len(MESSAGES)
    line.turn(lambda: len(line.asked) == len(MESSAGES))
    assert line.asked == MESSAGES


def test_an_answer_that_is_not_taken_waits_and_nothing_else_is_asked():
    line, answer = Line(late=True), bytes(60000)
    line.client.send(framed(*MESSAGES))
    for number in range(1, len(MESSAGES)):
        line.turn(lambda number=number: len(line.asked) == number)
        line.stream.reply(answer)
        line.turn(lambda: True)
        if len(line.asked) == number:
            break  # no more goes into the socket
    assert 1 <= number < len(MESSAGES)
    line.turn(lambda: False)
    assert len(line.asked) == number
    taken = 0
    while len(line.asked) == number:
        taken += len(line.client.recv(65536))
        line.turn(lambda: True)
    while taken < number * len(framed(answer)):
        taken += len(line.client.recv(65536))
    assert taken == number * len(framed(answer))
    line.close()


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\5abcde", b"\xff\xff" + bytes(100)])
def test_what_is_no_message_is_never_asked_and_an_end_is_an_end(line: Line, data: bytes):
    line.client.send(data)
    line.client.shutdown(socket.SHUT_WR)
    line.turn(lambda: line.ended)
    assert (line.asked, line.ended) == ([], 1)
    assert line.client.recv(10) == b""


def test_a_client_that_goes_while_its_answer_is_awaited_is_let_go():
    line = Line(late=True)
    line.client.send(framed(MESSAGES[0]))
    line.turn(lambda: line.asked)
    line.client.close()
    line.turn(lambda: line.ended)
    line.stream.reply(b"too late")
    assert line.ended == 1


def test_no_answer_is_the_end(line: Line):
    line.late = True
    line.client.send(framed(MESSAGES[0]))
    line.turn(lambda: line.asked)
    line.stream.reply(b"")
    assert line.client.recv(10) == b""
    assert line.ended == 1
