"""Runs the host's git for a build: one command at a time, with nothing of the host's or of a user's configuration.

Runs on the thread that builds, and waits for the program and for the client at once. The program is in a session of its
own, so that it ends with all that it has started. It speaks http, https, git and ssh, and nothing else; it runs no
hooks, asks nobody for a password, and is ended when the disk is nearly full or when its time is over. What it is given
as secrets stands in its environment, which the host's users cannot read, and not among its arguments.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from engine.daemon.tar.space import check_space
from engine.dataclass import dataclass, field
from engine.errors import Invalid, SystemFailure, Unavailable
from engine.kernel import outside

_SECONDS = 30 * 60
_LOOK_SECONDS = 0.5
_LARGEST_ANSWER = 4 << 20
_LONGEST_ERROR = 4096


def ssh(known_hosts: str = "") -> str:
    """The command that git speaks ssh by. known_hosts: the file with the keys of hosts, empty where any host will do"""
    checking = "yes" if known_hosts else "no"
    files = f"-o UserKnownHostsFile={known_hosts or '/dev/null'} -o GlobalKnownHostsFile=/dev/null"
    return f"ssh -F /dev/null -o StrictHostKeyChecking={checking} {files} -o BatchMode=yes"


# git runs none of these, whatever a repository has in its files.
_CONFIGURATION = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", ssh()),
    ("protocol.allow", "never"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    ("protocol.git.allow", "always"),
    ("protocol.ssh.allow", "always"),
    ("advice.detachedHead", "false"),
    ("init.defaultBranch", "master"),
    ("gc.auto", "0"),
    ("credential.helper", ""),
    ("filter.lfs.smudge", "cat"),
    ("filter.lfs.required", "false"),
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class Git:
    """The program for one repository.

    place: the directory that it runs in, and writes to; configuration: names and values beside the usual ones
    agent: the socket of an agent of ssh, or empty; check: raises once nobody waits any more
    """

    place: str
    configuration: Mapping[str, str] = field(default_factory=dict)
    agent: str = ""
    check: Callable[[], None] = lambda: None

    def __call__(self, *words: str) -> str:
        """What a command prints.

        Raises Unavailable without git, SystemFailure with git's words, Invalid, and what `check` raises.
        """
        program = shutil.which("git")
        if program is None:
            raise Unavailable("this host has no git, which builds from git repositories need")
        with contextlib.ExitStack() as stack:
            answer, errors = (stack.enter_context(open(os.memfd_create(name), "w+b")) for name in ("out", "error"))
            # The program is in the network of the thread that starts it.
            process = outside.call(
                lambda: subprocess.Popen(
                    [program, *words],
                    cwd=self.place,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=answer,
                    stderr=errors,
                    start_new_session=True,
                )
            )
            try:
                self._wait(process.pid, answer.fileno(), errors.fileno())
            finally:
                _end(process)
            if process.returncode:
                errors.seek(0)
                told = errors.read(_LONGEST_ERROR).decode("utf-8", "replace").strip()
                raise SystemFailure(f"git {words[0]} failed with status {process.returncode}: {told}")
            answer.seek(0)
            return answer.read(_LARGEST_ANSWER).decode("utf-8", "surrogateescape")

    def _wait(self, pid: int, *written: int) -> None:
        until = time.monotonic() + _SECONDS
        place = os.open(self.place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        over = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(over, select.POLLIN)
            while not poll.poll(_LOOK_SECONDS * 1000):
                self.check()
                check_space(place)
                if time.monotonic() > until:
                    raise SystemFailure(f"git did not end within {_SECONDS // 60} minutes")
                if any(os.fstat(fd).st_size > _LARGEST_ANSWER for fd in written):
                    raise Invalid("git has more to say than a repository should give it reason to")
        finally:
            os.close(over)
            os.close(place)

    def _environment(self) -> dict[str, str]:
        given = [*_CONFIGURATION, *self.configuration.items()]
        found = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/dev/null",
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ALLOW_PROTOCOL": "http:https:git:ssh",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_CONFIG_COUNT": str(len(given)),
        }
        for number, (name, value) in enumerate(given):
            found[f"GIT_CONFIG_KEY_{number}"] = name
            found[f"GIT_CONFIG_VALUE_{number}"] = value
        for name in (*_PROXIES, *map(str.lower, _PROXIES)):
            if name in os.environ:
                found[name] = os.environ[name]
        if self.agent:
            found["SSH_AUTH_SOCK"] = self.agent
        return found


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what the program has started, and itself where it goes on.

    Until it is waited for, its number is that of its session and nobody else's.
    """
    with contextlib.suppress(ProcessLookupError):  # none of them is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def first_that_works(git: Git, *commands: Sequence[str]) -> str:
    """What the first of these commands prints that succeeds. Raises SystemFailure of the last one."""
    for words in commands[:-1]:
        with contextlib.suppress(SystemFailure):  # a server need not do all that the first ones ask for
            return git(*words)
    return git(*commands[-1])
