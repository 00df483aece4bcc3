"""The Huffman code of HPACK (RFC 7541, appendix B): bytes to bits and back.

Pure. The code is canonical: the lengths of its codes say everything, since codes are numbered by their length, and
among equal lengths by their byte. So the table here is one number for each byte. What is made of it is made at the
first use.
"""

import functools

from engine.dataclass import dataclass
from engine.errors import Invalid

# The number of bits of each byte's code, and of the code for the end of a string, which is never sent.
_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b08060606"
    "0505050606060606060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c14161414161616171617171717171817"
    "181816171817171717151617161717181615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b14181415161515171616191918181a17"
    "1a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
_END = 256
_LONGEST = 30
_ALL = (1 << _LONGEST) - 1


@dataclass(frozen=True, slots=True)
class _Tables:
    """codes: (code, bits) of each byte

    steps: (bits, the first window that is too large for a code of so many bits, the number of the first such code, the
        place of its byte in `symbols`), shortest first; a window is the next 30 bits
    symbols: the bytes in the order of their codes
    """

    codes: tuple[tuple[int, int], ...]
    steps: tuple[tuple[int, int, int, int], ...]
    symbols: tuple[int, ...]


@functools.cache
def _tables() -> _Tables:
    symbols = sorted(range(len(_LENGTHS)), key=lambda symbol: (_LENGTHS[symbol], symbol))
    codes, steps = [(0, 0)] * len(_LENGTHS), []
    code = bits = 0
    for place, symbol in enumerate(symbols):
        length = _LENGTHS[symbol]
        if length > bits:
            code <<= length - bits
            bits = length
            count = _LENGTHS.count(length)
            steps.append((length, (code + count) << (_LONGEST - length), code, place))
        codes[symbol] = code, length
        code += 1
    return _Tables(tuple(codes), tuple(steps), tuple(symbols))


def size(data: bytes) -> int:
    """The number of bytes that `encode` makes of these."""
    return (sum(_LENGTHS[byte] for byte in data) + 7) // 8


def encode(data: bytes) -> bytes:
    """The bytes in this code; the last byte is filled up with ones."""
    codes = _tables().codes
    made = bytearray()
    waiting = count = 0
    for byte in data:
        code, bits = codes[byte]
        waiting = waiting << bits | code
        count += bits
        if count >= _LONGEST:  # whole bytes go, so that the number stays small
            rest = count % 8
            made += (waiting >> rest).to_bytes(count // 8, "big")
            waiting &= (1 << rest) - 1
            count = rest
    filling = -count % 8
    made += (waiting << filling | (1 << filling) - 1).to_bytes((count + filling) // 8, "big")
    return bytes(made)


def decode(data: bytes) -> bytes:
    """The bytes that were encoded. Raises Invalid for what `encode` never makes (section 5.2)."""
    tables = _tables()
    made = bytearray()
    waiting = count = place = 0
    while True:
        while count < _LONGEST and place < len(data):
            waiting = waiting << 8 | data[place]
            count += 8
            place += 1
        if not count:
            return bytes(made)
        # Behind the last byte ones are assumed: no code but that of the end has so many of them.
        missing = _LONGEST - count
        window = waiting << missing | (1 << missing) - 1 if missing > 0 else waiting >> -missing
        bits, _, first, begin = next(step for step in tables.steps if window < step[1] or step[0] == _LONGEST)
        if bits > count:
            if count < 8 and waiting == (1 << count) - 1:
                return bytes(made)
            raise Invalid("hpack: a string is filled up with too much, or with anything but ones")
        symbol = tables.symbols[begin + (window >> (_LONGEST - bits)) - first]
        if symbol == _END:
            raise Invalid("hpack: a string has its end in it")
        made.append(symbol)
        count -= bits
        waiting &= (1 << count) - 1
