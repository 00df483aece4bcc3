"""The many clients of the benchmark know where an answer ends."""

import pytest

from bench.crowd import whole_body

HEAD = b"HTTP/1.1 200 OK\r\nX: y\r\n"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", b""),
        (HEAD + b"Content-Length: 4\r\n\r\nbody", b"body"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", b"1\r\na\r\n0\r\n\r\n"),
    ],
)
def test_an_answer_is_whole_with_its_last_byte_and_not_before(answer, body):
    assert whole_body(answer) == body
    assert all(whole_body(answer[:size]) is None for size in range(len(answer)))
