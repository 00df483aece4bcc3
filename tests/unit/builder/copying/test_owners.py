"""What --chown says, by a root's own files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder.copying import owners
from engine.errors import Invalid

FAILED = "unable to convert uid/gid chown string to host mapping: "


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "etc").mkdir()
    (tmp_path / "real").write_text("root:x:0:0::/:\nbob:x:1000:1::/:\nbroken\nbad:x:many:1\nlarge:x:99999999999:1\n")
    (tmp_path / "etc/passwd").symlink_to("/real")
    (tmp_path / "etc/group").write_text("bob:x:1001:\nstaff:x:50:bob\n")
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", (7, 7)),
        ("7:8", (7, 8)),
        ("bob", (1000, 1001)),
        ("bob:staff", (1000, 50)),
        ("7:staff", (7, 50)),
        ("bob:0", (1000, 0)),
    ],
)
def test_names_and_numbers(root: int, text: str, expected: tuple[int, int]) -> None:
    assert owners.look_up(root, text) == expected
    known = owners.numbers(text)
    assert known == (expected if not set(text) & set("bst") else None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nobody", "can't find uid for user nobody: no such user: nobody"),
        ("root", "can't find gid for group root: no such group: root"),
        ("bob:nope", "can't find gid for group nope: no such group: nope"),
        (":staff", "can't find uid for user : no such user: "),
        ("bad", "can't find uid for user bad: no such user: bad"),
        ("a:b:c", "invalid chown string format: a:b:c"),
        ("-1", "uids and gids must be in range 0-4294967294, and -1 is not"),
        ("4294967295", "uids and gids must be in range 0-4294967294, and 4294967295 is not"),
    ],
)
def test_what_nobody_is_called_is_told_in_dockerds_words(root: int, text: str, error: str) -> None:
    with pytest.raises(Invalid) as raised:
        owners.look_up(root, text)
    assert str(raised.value) == FAILED + error


def test_a_passwd_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/passwd")
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(Invalid, match="not a regular file"):
            owners.look_up(fd, "bob")
    finally:
        os.close(fd)
