"""The seccomp profile of containers that name none, from the file that the daemon's settings name."""

import pytest

from engine.daemon.containers.security import profilefile
from engine.errors import Invalid, SystemFailure


def test_the_words_stand_for_themselves():
    assert [profilefile.text(word) for word in ("builtin", "unconfined")] == ["builtin", "unconfined"]


def test_a_file_is_read_once(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    assert profilefile.text(str(path)) == '{"defaultAction": "SCMP_ACT_ALLOW"}'
    path.write_text("{}")
    assert profilefile.text(str(path)) == '{"defaultAction": "SCMP_ACT_ALLOW"}'


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (None, SystemFailure, r"opening seccomp profile \(.*/profile.json\) failed: no such file or directory"),
        (b"{", Invalid, "cannot be used"),
        (b'"\xff"', Invalid, "cannot be used"),
        (b" " * (1 << 20) + b"{}", Invalid, "it is larger than 1048576 bytes"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path, data, kind, words):
    path = tmp_path / "profile.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(kind, match=words):
        profilefile.text(str(path))
