"""Runs programs of Debian packages that are unpacked below the cache, and not installed, as if they were.

Some find the rest of their package only in /usr. So they get a mount namespace in which /usr has both.
"""

from collections.abc import Sequence

from tests.__main__ import LOCAL

_SCRIPT = 'mount -t overlay -o "lowerdir=$1/usr:/usr" none /usr; shift; exec "$@"'


def installed(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` there, as root."""
    return ["unshare", "--mount", "sh", "-ec", _SCRIPT, "sh", str(LOCAL), *argv]
