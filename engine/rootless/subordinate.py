"""Maps a user's ids into a user namespace: the user's own as root, and the subordinate ones of /etc/subuid and subgid.

Runs in the process that is to be a user's daemon, while it has one thread. Only newuidmap(1) and newgidmap(1), which
are setuid programs, may map more than the user's own id. Where they or the ids are missing, that one id is mapped.
"""

import os
import pwd
import shutil
import subprocess

from engine.errors import Unavailable
from engine.kernel import subids, syscalls
from engine.kernel.subids import Range

_SECONDS = 30


def arguments(own: int, subordinate: list[Range]) -> list[str]:
    """The words of newuidmap(1) after the pid: root is the user, and the ids from 1 on are the subordinate ones."""
    words = ["0", str(own), "1"]
    inside = 1
    for first, count in subordinate:
        words += [str(inside), str(first), str(count)]
        inside += count
    return words


def enter() -> str:
    """Move this process into a new user namespace, in which it is root; returns why only one id is mapped, or "".

    Raises Unavailable where the user may have no such namespace, and where the first program has mapped its ids and the
    second one fails, because a map is written once.
    """
    uid, gid = os.geteuid(), os.getegid()
    commands, problem = _commands(uid, gid)
    ready, told = os.pipe()
    report, reported = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(told)
        os.close(report)
        _help(ready, reported, commands)
    os.close(ready)
    os.close(reported)
    try:
        try:
            syscalls.unshare(syscalls.CLONE_NEWUSER)
        except OSError as error:
            raise Unavailable(f"no user namespace can be made: {error.strerror}; see: engine check") from error
        if commands:
            os.write(told, b"1")
            with open(report, "rb", closefd=False) as answer:
                problem = answer.read().decode("utf-8", "replace").strip()
        if problem and _is_mapped():
            raise Unavailable(f"the user's ids cannot be mapped: {problem}; see: engine check")
        if problem or not commands:
            _map_one(uid, gid)
    finally:
        os.close(told)
        os.close(report)
        os.waitpid(helper, 0)
    return problem


def _commands(uid: int, gid: int) -> tuple[list[list[str]], str]:
    """The command lines that map the ids of this process; none, and why, where only one id can be mapped."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    commands = []
    for kind, own in (("uid", uid), ("gid", gid)):
        program = shutil.which(f"new{kind}map")
        if program is None:
            return [], f"new{kind}map is not installed (Debian's package is called uidmap)"
        mine = subids.read(kind, (name, str(uid)))
        if not mine:
            return [], f"{subids.FILES[kind]} has no ids for {name}"
        commands.append([program, str(os.getpid()), *arguments(own, mine)])
    return commands, ""


def _help(ready: int, reported: int, commands: list[list[str]]) -> None:
    """Be the helper, which stays in the user namespace of the host: run the programs once there is what to map for."""
    status = 1
    try:
        if os.read(ready, 1):
            os.write(reported, _run(commands).encode())
        status = 0
    finally:
        os._exit(status)


def _run(commands: list[list[str]]) -> str:
    for command in commands:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{command[0]}: {error}"
        if done.returncode:
            return done.stderr.decode("utf-8", "replace").strip() or f"{command[0]} ended with {done.returncode}"
    return ""


def _is_mapped() -> bool:
    with open("/proc/self/uid_map") as file:
        return file.read() != ""


def _map_one(uid: int, gid: int) -> None:
    """Map the user's own ids alone. The kernel wants setgroups(2) to be given up for that. Raises Unavailable."""
    try:
        for name, text in (("uid_map", f"0 {uid} 1"), ("setgroups", "deny"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        raise Unavailable(f"the user's ids cannot be mapped: {error}; see: engine check") from error
