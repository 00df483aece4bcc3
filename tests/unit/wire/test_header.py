"""engine.wire.header: what C has of the messages is what engine/wire declares."""

import re

import pytest

from engine import dataclass
from engine.wire import channel, codec, header


def test_the_header_is_what_is_declared() -> None:
    assert header.HEADER.read_text() == header.text(), "run python3 -m engine.wire.header"


@pytest.mark.parametrize("name", header.WRITTEN)
def test_what_c_writes_is_read_as_the_message(name: str) -> None:
    """With the gaps filled as printf(3) fills them."""
    message = header.WRITTEN[name]
    (literal,) = re.findall(rf"^#define WIRE_{name} (.*)$", header.text(), re.MULTILINE)
    whole = re.sub(r'%" PRId64 "', "%d", literal)[1:-1].replace('\\"', '"')
    gaps = [value for value in dataclass.asdict(message).values() if isinstance(value, int) and value >= 1 << 40]
    assert (whole % tuple(gaps)).encode() == channel.datagram(message)
    assert codec.decode((whole % tuple(range(len(gaps)))).encode()[1:]) != message


def test_words_for_one_ear_differ() -> None:
    for words in header.WORDS.values():
        assert len(set(words.values())) == len(words)
