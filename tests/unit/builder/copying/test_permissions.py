"""What --chmod says."""

import pytest

from engine.daemon.builder.copying import permissions
from engine.errors import Invalid

FILE, PROGRAM, DIRECTORY = 0o100644, 0o100755, 0o40750

CHANGES = [
    ("644", PROGRAM, 0o100644),
    ("0", FILE, 0o100000),
    ("4755", FILE, 0o104755),
    ("755", DIRECTORY, 0o40755),
    ("u=rwX,go=rX", FILE, 0o100644),
    ("u=rwX,go=rX", PROGRAM, 0o100755),
    ("u=rwX,go=rX", DIRECTORY, 0o40755),
    ("+x", FILE, 0o100755),
    ("a-x", PROGRAM, 0o100644),
    ("go-r", FILE, 0o100600),
    ("g=u", FILE, 0o100664),
    ("o=", PROGRAM, 0o100750),
    ("u+s,+t", PROGRAM, 0o105755),
    ("ug+s", PROGRAM, 0o106755),
    ("u-w+x", FILE, 0o100544),
    ("a=rx", 0o42775, 0o42555),
]


@pytest.mark.parametrize(("text", "mode", "expected"), CHANGES)
def test_a_mode_is_changed_as_chmod_does(text: str, mode: int, expected: int) -> None:
    assert oct(permissions.parse(text)(mode)) == oct(expected)


@pytest.mark.parametrize("text", ["9", "77777", "u", "x+", "u=rwz", "u=rw,", ",", "-1", "0x1", "u=rw go=r"])
def test_what_is_no_mode_is_refused_in_buildkits_words(text: str) -> None:
    with pytest.raises(Invalid, match="invalid chmod parameter"):
        permissions.parse(text)
