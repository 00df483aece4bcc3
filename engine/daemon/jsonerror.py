"""Explains what is wrong with a JSON text in the words of Go's decoder, which clients show and sometimes look for.

Pure. It is only called after Python's own decoder has refused the text. So it may walk byte by byte, and it never
builds a value.
"""

_SPACE = b" \t\r\n"
_DIGITS = frozenset(b"0123456789")
_HEX = b"0123456789abcdefABCDEF"
_WORDS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_QUOTED = {ord("'"): r"\'", ord("\n"): r"\n", ord("\r"): r"\r", ord("\t"): r"\t", ord("\\"): r"\\"}
_ESCAPES = b'bfnrt\\/"'


class _Fault(Exception):
    """Ends the walk; its text is the explanation."""


class _Walk:
    """A position in the text, and the steps that Go's scanner (encoding/json/scanner.go) takes from there."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def peek(self) -> int:
        if self.at >= len(self.data):
            raise _Fault("unexpected EOF")
        return self.data[self.at]

    def next(self) -> int:
        byte = self.peek()
        self.at += 1
        return byte

    def fail(self, where: str) -> None:
        raise _Fault(f"invalid character {_quote(self.data[self.at])} {where}")

    def skip_space(self) -> int:
        while self.peek() in _SPACE:
            self.at += 1
        return self.peek()

    def text(self) -> None:
        """Move past a value. The open brackets are kept in a list, so that no depth of nesting exhausts the stack."""
        open_brackets: list[int] = []
        while True:
            opened = self.begin_value()
            if opened:
                open_brackets.append(opened)
                if self.skip_space() != opened + 2:  # ] and } stand two after [ and { in ASCII
                    if opened == ord("{"):
                        self.key()
                    continue
            while open_brackets and self.close(open_brackets[-1]):
                open_brackets.pop()
            if not open_brackets:
                return

    def begin_value(self) -> int:
        """Move past a simple value (returns 0), or past an opening bracket, which is returned."""
        byte = self.skip_space()
        if byte in b"{[":
            self.at += 1
            return byte
        if byte == ord('"'):
            self.string()
        elif byte in _WORDS:
            self.word(_WORDS[byte])
        elif byte == ord("-") or byte in _DIGITS:
            self.number()
        else:
            self.fail("looking for beginning of value")
        return 0

    def close(self, opened: int) -> bool:
        """After an element: True past the closing bracket, False past a comma (and, in an object, the next key)."""
        byte = self.skip_space()
        if byte == opened + 2:
            self.at += 1
            return True
        if byte != ord(","):
            self.fail("after object key:value pair" if opened == ord("{") else "after array element")
        self.at += 1
        if opened == ord("{"):
            self.key()
        return False

    def key(self) -> None:
        if self.skip_space() != ord('"'):
            self.fail("looking for beginning of object key string")
        self.string()
        if self.skip_space() != ord(":"):
            self.fail("after object key")
        self.at += 1

    def string(self) -> None:
        self.at += 1
        while (byte := self.peek()) != ord('"'):
            if byte < 0x20:
                self.fail("in string literal")
            self.at += 1
            if byte == ord("\\"):
                self.escape()
        self.at += 1

    def escape(self) -> None:
        byte = self.peek()
        if byte != ord("u"):
            if byte not in _ESCAPES:
                self.fail("in string escape code")
            self.at += 1
            return
        self.at += 1
        for _ in range(4):
            if self.peek() not in _HEX:
                self.fail(r"in \u hexadecimal character escape")
            self.at += 1

    def word(self, word: bytes) -> None:
        for expected in word:
            if self.peek() != expected:
                self.fail(f"in literal {word.decode()} (expecting {_quote(expected)})")
            self.at += 1

    def number(self) -> None:
        if self.peek() == ord("-"):
            self.at += 1
            if self.peek() not in _DIGITS:
                self.fail("in numeric literal")
        if self.next() != ord("0"):
            self.digits()
        if self.there() == ord("."):
            self.at += 1
            self.some_digits("after decimal point in numeric literal")
        if self.there() in (ord("e"), ord("E")):
            self.at += 1
            if self.peek() in b"+-":
                self.at += 1
            self.some_digits("in exponent of numeric literal")

    def some_digits(self, where: str) -> None:
        if self.peek() not in _DIGITS:
            self.fail(where)
        self.digits()

    def digits(self) -> None:
        while self.there() in _DIGITS:
            self.at += 1

    def there(self) -> int:
        """The byte at the position, or -1 at the end of the text: unlike other values, a number may end there."""
        return self.data[self.at] if self.at < len(self.data) else -1


def explain(data: bytes) -> str:
    """The fault of the first value in `data`: `EOF` when the text is blank, empty when there is no fault."""
    if not data.strip(_SPACE):
        return "EOF"
    try:
        _Walk(data).text()
    except _Fault as fault:
        return str(fault)
    return ""


def _quote(byte: int) -> str:
    """A byte as Go's scanner shows it: as the character of that number, quoted."""
    if byte in _QUOTED:
        return f"'{_QUOTED[byte]}'"
    shown = chr(byte)
    return f"'{shown}'" if shown.isprintable() else f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"
