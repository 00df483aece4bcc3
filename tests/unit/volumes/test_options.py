"""The local driver's options: what is refused, and what is mounted."""

import pytest

from engine.daemon.volumes import options
from engine.daemon.volumes.options import Mounting
from engine.errors import Invalid


@pytest.mark.parametrize(
    "asked",
    [None, {}, {"size": "0"}, {"type": "tmpfs", "device": "tmpfs"}, {"type": "none", "o": "bind", "device": "/x"}],
)
def test_what_can_be(asked):
    options.check(asked)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"x": "y"}, 'invalid option: "x"'),
        ({"device": "/x"}, 'missing required option: "type"'),
        ({"type": "nfs"}, 'missing required option: "device"'),
        ({"o": "bind"}, 'missing required option: "device"'),
        ({"size": "10g"}, "quota size requested but no quota support"),
    ],
)
def test_what_cannot_be_is_refused_in_dockers_words(asked, words):
    with pytest.raises(Invalid, match=f"^{words}$"):
        options.check(asked)


@pytest.mark.parametrize(
    ("asked", "mounted"),
    [
        (None, None),
        ({"size": "0"}, None),
        ({"type": "tmpfs", "device": "tmpfs"}, Mounting("tmpfs", "tmpfs", (), "")),
        (
            {"type": "tmpfs", "device": "tmpfs", "o": "size=1m,uid=7,nosuid,ro,rw"},
            Mounting("tmpfs", "tmpfs", ("nosuid",), "size=1m,uid=7"),
        ),
        ({"type": "none", "device": "/x", "o": "bind,ro"}, Mounting("bind", "/x", ("bind", "ro"), "")),
        ({"type": "", "device": "/x", "o": "rbind"}, Mounting("bind", "/x", ("rbind",), "")),
        (
            {"type": "nfs", "device": ":/share", "o": "addr=127.0.0.1,rw,nfsvers=4"},
            Mounting("nfs", ":/share", (), "addr=127.0.0.1,nfsvers=4"),
        ),
        ({"type": "ext4", "device": "/dev/x", "o": "defaults"}, Mounting("ext4", "/dev/x", (), "")),
    ],
)
def test_what_is_mounted(asked, mounted):
    assert options.mounting(asked) == mounted
