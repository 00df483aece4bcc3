"""README's ways to install, word for word: as root and as a user, from a clone, one file and a Debian package.

Each check leaves the guest as it found it, but for the user and the files that it has made.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.guests.check_clients import words
from tests.guests.check_user import RUNTIME, UID, USER, USERS, OfUser
from tests.guests.inside import PROJECT, Host

ALONE = Path("/opt/alone")
FILE = ALONE / "engine.pyz"
CLONE = "python3 -m engine"
UNITS = ("engine.socket", "engine.service")


class Followed:
    """Somebody who follows README: in a directory, with that in the place of `python3 -m engine`."""

    def __init__(self, host: Host, directory: Path, program: str = CLONE, systemctl: str = "systemctl") -> None:
        self._host, self._directory, self._program, self._systemctl = host, directory, program, systemctl

    def say(self, script: str) -> str:
        """What the commands say that README has."""
        said = script.replace(CLONE, self._program).replace("systemctl", self._systemctl)
        return self._host.run("sh", "-ec", f"cd {self._directory}\n{said}")

    def checks_and_demonstrates(self) -> None:
        """The first two of the three commands."""
        check, demo, _ = words("Three commands")[0].splitlines()
        self.say(check.partition("#")[0])  # status 0: containers can run as usual
        assert "stream 1: hello from a container" in self.say(demo.partition("#")[0])

    @contextlib.contextmanager
    def installed(self, user: str = "") -> Iterator[None]:
        """The units. user: ` --user`, for a user's own"""
        block = next(block for block in words("Install") if "install-units" in block).replace(
            "install-units", f"install-units{user}"
        )
        self.say(block)
        try:
            self._host.until(self._host.answers)
            assert self.say("systemctl is-active engine.socket").strip() == "active"
            yield
        finally:
            self.say(f"systemctl disable --now {' '.join(UNITS)}")

    def uses_the_small_client(self) -> None:
        """The last block of "Daily use"."""
        assert self.say(words("Daily use")[-1]).rstrip().endswith("hi")


def check_a_clone_as_root(host: Host) -> None:
    """The words as they stand."""
    root = Followed(host, PROJECT)
    root.checks_and_demonstrates()
    with root.installed():
        root.uses_the_small_client()
    host.run("rm", "-r", "/etc/systemd/system/engine.service", "/etc/systemd/system/engine.socket")


def check_the_one_file_as_root(host: Host) -> None:
    """In a directory of its own: nothing of the clone is near."""
    Followed(host, PROJECT).say(words("Install")[0].splitlines()[0].partition("#")[0])
    ALONE.mkdir()
    shutil.move(PROJECT / "engine.pyz", FILE)
    assert FILE.stat().st_size <= 1_000_000
    root = Followed(host, ALONE, "./engine.pyz")
    root.checks_and_demonstrates()
    with root.installed():
        assert str(FILE) in host.run("systemctl", "cat", "engine.service")
        root.uses_the_small_client()
    host.run("rm", "-r", "/etc/systemd/system/engine.service", "/etc/systemd/system/engine.socket")


def _user(host: Host) -> OfUser:
    if not os.path.exists(f"/home/{USER}"):
        host.run("useradd", "--create-home", "--uid", str(UID), USER)
        host.run("loginctl", "enable-linger", USER)
        host.until(lambda: os.path.exists(f"{RUNTIME}/systemd/private"))
    return USERS


def check_a_clone_as_a_user(host: Host) -> None:
    """`install-units --user`, and the user's client finds the user's daemon."""
    user = Followed(_user(host), PROJECT, systemctl="systemctl --user")
    user.checks_and_demonstrates()
    with user.installed(" --user"):
        user.uses_the_small_client()
        assert "name=rootless" in USERS.ask("GET", "/info")["SecurityOptions"]


def check_the_one_file_as_a_user(host: Host) -> None:
    """The user's copy of it."""
    home = Path(f"/home/{USER}")
    _user(host)
    shutil.copy2(FILE, home / "engine.pyz")
    host.run("chown", f"{USER}:{USER}", str(home / "engine.pyz"))
    user = Followed(USERS, home, "./engine.pyz", "systemctl --user")
    user.checks_and_demonstrates()
    with user.installed(" --user"):
        assert str(home / "engine.pyz") in USERS.systemctl("cat", "engine.service")
        user.uses_the_small_client()


def check_the_debian_package(host: Host) -> None:
    """It brings the units, and has the socket listen; what is left after its end are images."""
    Followed(host, PROJECT).say(words("Install")[0].splitlines()[1].partition("#")[0])
    (package,) = PROJECT.glob("*.deb")
    host.run("dpkg", "-i", str(package))
    host.until(host.answers)
    assert host.run("systemctl", "is-active", "engine.socket").strip() == "active"
    root = Followed(host, Path("/"), "engine")
    root.uses_the_small_client()
    host.run("dpkg", "-P", "engine")
    assert not host.answers()
