"""The frames of a multiplexed stream: the tests' own reading and writing of the format, no engine code."""

from collections.abc import Iterator

STDOUT = 1
STDERR = 2


def frame(stream: int, payload: bytes) -> bytes:
    """One frame."""
    return bytes((stream, 0, 0, 0)) + len(payload).to_bytes(4, "big") + payload


def split(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(stream, payload) of each frame; ValueError where the bytes are not whole frames."""
    position = 0
    while position < len(data):
        head = data[position : position + 8]
        size = int.from_bytes(head[4:], "big")
        payload = data[position + 8 : position + 8 + size]
        if len(head) < 8 or head[1:4] != b"\0\0\0" or head[0] not in (0, 1, 2, 3) or len(payload) < size:
            raise ValueError(f"no whole frame at byte {position} of {len(data)}: {data[position : position + 40]!r}")
        yield head[0], payload
        position += 8 + size


def joined(data: bytes, stream: int) -> bytes:
    """All that one stream said."""
    return b"".join(payload for number, payload in split(data) if number == stream)


def stdout(data: bytes) -> bytes:
    """All that standard output said."""
    return joined(data, STDOUT)


def stderr(data: bytes) -> bytes:
    """All that standard error said."""
    return joined(data, STDERR)
