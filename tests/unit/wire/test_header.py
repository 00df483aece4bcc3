"""engine.wire.header: what C has of the messages is what engine/wire declares."""

import re

import pytest

from engine import dataclass
from engine.wire import channel, codec, header

WORD, LIST = header._WORD, header._LIST


def test_the_header_is_what_is_declared() -> None:
    assert header.HEADER.read_text() == header.text(), "run python3 -m engine.wire.header"


@pytest.mark.parametrize("name", header.WRITTEN)
def test_what_c_writes_is_read_as_the_message(name: str) -> None:
    """With the gaps filled as printf(3) fills them."""
    message = header.WRITTEN[name]
    (literal,) = re.findall(rf"^#define WIRE_{name} (.*)$", header.text(), re.MULTILINE)
    whole = re.sub(r'%" PRId64 "', "%d", literal)[1:-1].replace('\\"', '"')
    values = dataclass.asdict(message).values()
    gaps = [each for each in values if (isinstance(each, int) and each >= 1 << 40) or each in (WORD, (LIST,))]
    filled = tuple(f'"{LIST}"' if each == (LIST,) else each for each in gaps)
    assert (whole % filled).encode() == channel.datagram(message)
    others = tuple('"x"' if each == (LIST,) else "x" if each == WORD else place for place, each in enumerate(gaps))
    assert gaps == [] or codec.decode((whole % others).encode()[1:]) != message


def test_words_for_one_ear_differ() -> None:
    for words in header.WORDS.values():
        assert len(set(words.values())) == len(words)
