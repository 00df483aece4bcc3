"""A user's own engine under the user's systemd: its units, the cgroups that are the user's, its sleep."""

import os
import subprocess
import sys
from pathlib import Path

from engine.client.api import Api
from tests.guests.asleep import ONE_SECOND, sleep_and_wake
from tests.guests.inside import PROJECT, Host, read

USER, UID = "someone", 1000
RUNTIME = f"/run/user/{UID}"
MANAGERS = f"/user.slice/user-{UID}.slice/user@{UID}.service"
MB = 1 << 20


class OfUser(Host):
    """The guest as the user has it."""

    api = Api(f"{RUNTIME}/engine.sock")
    settings = (f"XDG_RUNTIME_DIR={RUNTIME}", f"HOME=/home/{USER}", "PYTHONDONTWRITEBYTECODE=1")

    def run(self, *argv: str, status: int = 0) -> str:
        """Run a program as the user."""
        return super().run("runuser", "-u", USER, "--", "env", *self.settings, *argv, status=status)

    def systemctl(self, *words: str, status: int = 0) -> str:
        """What the user's systemctl says."""
        return self.run("systemctl", "--user", *words, status=status).strip()

    def cgroup(self, one: str) -> str:
        """The path of a running container's cgroup."""
        return read(f"/proc/{self.inspect(one)['State']['Pid']}/cgroup").removeprefix("0::")


USERS = OfUser()


def check_the_units_of_a_user_start_the_engine(host: Host) -> None:
    """`install-units --user` as README has it, on a host where the user has a manager (linger)."""
    host.run("useradd", "--create-home", "--uid", str(UID), USER)
    host.run("loginctl", "enable-linger", USER)
    host.until(lambda: os.path.exists(f"{RUNTIME}/systemd/private"))
    USERS.engine("install-units", "--user")
    USERS.systemctl("daemon-reload")
    USERS.systemctl("enable", "--now", "engine.socket")
    host.until(USERS.answers)
    host.until(lambda: USERS.systemctl("is-active", "engine.service") == "active")
    info = USERS.ask("GET", "/info")
    assert "name=rootless" in info["SecurityOptions"]
    assert (info["CgroupDriver"], info["CgroupVersion"]) == ("systemd", "2")


def check_limits_are_kept_by_the_cgroups_that_are_the_users(host: Host) -> None:
    """Those that systemd delegates; the others are warnings."""
    limits = {"Memory": 64 * MB, "MemorySwap": 64 * MB, "PidsLimit": 50}
    one = USERS.begin("sleep", "10000", HostConfig=limits)
    path = USERS.cgroup(one)
    assert path == f"{MANAGERS}/user.slice/engine-{one}.scope"
    there = f"/sys/fs/cgroup{path}"
    assert (read(f"{there}/memory.max"), read(f"{there}/pids.max")) == (str(64 * MB), "50")
    USERS.ask("POST", f"/containers/{one}/update", {"Memory": 96 * MB, "MemorySwap": 96 * MB})
    assert read(f"{there}/memory.max") == str(96 * MB)
    assert USERS.execute(one, "sh", "-c", "exit 7")[0] == 7
    USERS.ask("POST", f"/containers/{one}/pause")
    assert "frozen 1" in read(f"{there}/cgroup.events")
    USERS.ask("POST", f"/containers/{one}/unpause")
    assert USERS.ask("GET", f"/containers/{one}/stats", stream="false")["memory_stats"]["limit"] == 96 * MB
    USERS.remove(one)
    assert not os.path.exists(there)
    warned = USERS.ask(
        "POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], "HostConfig": {"BlkioWeight": 300}}
    )
    assert ("io" in read(f"/sys/fs/cgroup{MANAGERS}/cgroup.controllers").split()) is not any(
        "iscarded" in each for each in warned["Warnings"]
    )
    USERS.remove(warned["Id"])


def check_the_kernel_kills_what_takes_too_much(host: Host) -> None:
    """And the engine says so."""
    limits = {"Memory": 16 * MB, "MemorySwap": 16 * MB}
    one = USERS.begin("sh", "-c", "head -c 64000000 /dev/zero | tail", HostConfig=limits)
    USERS.wait(one)
    host.until(lambda: USERS.inspect(one)["State"]["Status"] == "exited")
    state = USERS.inspect(one)["State"]
    assert state["OOMKilled"] is True and state["ExitCode"] in (137, 1), state
    USERS.remove(one)


def check_containers_outlive_the_users_daemon(host: Host) -> None:
    """With their limits; the next daemon joins them."""
    one = USERS.begin("sleep", "10000", HostConfig={"PidsLimit": 50})
    pid, path = USERS.inspect(one)["State"]["Pid"], USERS.cgroup(one)
    USERS.systemctl("kill", "-s", "KILL", "--kill-who=main", "engine.service")
    host.until(USERS.answers)
    assert USERS.inspect(one)["State"]["Pid"] == pid and USERS.cgroup(one) == path
    assert USERS.execute(one, "echo", "there") == (0, "there\r\n")
    USERS.remove(one)


def check_the_users_engine_falls_asleep_and_is_woken(host: Host) -> None:
    """By a request, and by a container that its policy has run again."""
    settings = Path(f"/home/{USER}/.config/systemd/user/engine.service.d/soon.conf")
    USERS.run("mkdir", "-p", str(settings.parent))
    settings.write_text(ONE_SECOND)
    USERS.systemctl("daemon-reload")
    USERS.systemctl("restart", "engine.service")
    sleep_and_wake(USERS, lambda: USERS.systemctl("is-active", "engine.service", status=3) == "inactive")
    settings.unlink()
    USERS.systemctl("daemon-reload")


def check_a_daemon_of_a_login_comes_below_the_users_manager(host: Host) -> None:
    """Started by hand, elsewhere in the hierarchy: it is taken there, so that commands enter its containers."""
    USERS.systemctl("stop", "engine.socket", "engine.service")
    words = ["runuser", "-u", USER, "--", "env", *USERS.settings, sys.executable, "-m", "engine", "daemon"]
    with open("/run/users-daemon.log", "wb") as log:
        process = subprocess.Popen(words, cwd=PROJECT, stdout=log, stderr=log)
    try:
        host.until(USERS.answers)
        one = USERS.begin("sleep", "10000", HostConfig={"PidsLimit": 50})
        assert USERS.cgroup(one).startswith(f"{MANAGERS}/")
        assert USERS.execute(one, "echo", "there") == (0, "there\r\n")
        USERS.remove(one)
    finally:
        process.terminate()
        process.wait()
