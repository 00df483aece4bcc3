"""`engine listen`: opens the daemon's sockets, and becomes the process that starts a daemon when a client connects.

Runs in a process of its own, for an operator or for an init that is not systemd. It reads the daemon's options, opens
the sockets as the daemon would, and then executes the sleeper (`_muxer/process/sleeper.c`), a program of some kilobytes
that has them from then on. Where that program was not built, Python does the same (`dozing`) in some megabytes.
"""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Sequence

from engine import origin
from engine.daemon import slumber
from engine.daemon.api import listeners
from engine.errors import EngineError, Invalid
from engine.kernel import sealing
from engine.listen import dozing
from engine.settings import asleep, every, whose

_PROGRAM = "engine-sleeper"
_TITLE = "engine listen"
_NOT_BUILT = "python3 -m _muxer.build has not built the sleeper, so Python waits for clients, and takes some megabytes"
_FIRST = 3  # SD_LISTEN_FDS_START, sd_listen_fds(3)


def main(words: Sequence[str]) -> int:
    """Listen until a signal; returns the exit status of the process, unless it becomes the sleeper.

    words: options of the daemon
    """
    if "--help" in words or "-h" in words:
        print(usage(), end="")
        return 0
    try:
        return _listen([*words])
    except EngineError as error:
        print(f"engine listen: {error}", file=sys.stderr)
    except OSError as error:
        print(f"engine listen: {error.strerror}: {error.filename or 'the sleeper'}", file=sys.stderr)
    return 1


def usage() -> str:
    """The help text."""
    return f"""Usage: engine listen [OPTIONS OF THE DAEMON]

Hold the daemon's sockets, and start the daemon when a client connects. The
daemon ends when nothing was to be done for {asleep.USUAL} seconds (--{asleep.KEY} says
otherwise); containers run on. It is for hosts without systemd, whose units
do the same. Give it the options that the daemon is to have (see 'engine
daemon --help'); the daemon gets them, and reads the configuration file too.
"""


def _listen(words: list[str]) -> int:
    whose.check(os.geteuid(), os.environ)
    settings = every.from_arguments(words)
    environment = origin.environment()
    environment.setdefault(asleep.VARIABLE, str(asleep.USUAL))
    command, environment = sealing.without_site([*origin.starts(), "daemon", *words], environment)
    program = _program()
    now = _is_owed_a_start(settings)
    opened = [_opened(host, settings) for host in settings.hosts]
    files = [
        f"{os.stat(path).st_ino}:{path}" for host in settings.hosts if (path := host.removeprefix("unix://")) != host
    ]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever has started this process may have ignored it
    sockets = _moved(opened)
    if program is not None:
        arguments = [_TITLE, str(len(opened)), "now" if now else "wait", *files, "--", *command]
        os.execve(_executable(program), arguments, environment)
    print(f"engine listen: {_NOT_BUILT}", file=sys.stderr, flush=True)
    return dozing.doze(sockets, files, command, environment, now)


def _opened(host: str, settings: every.Settings) -> socket.socket:
    kind, _, rest = host.partition("://")
    if kind == "fd":
        raise Invalid(f"{host}: systemd holds such a socket, and starts the daemon itself (engine install-units)")
    return listeners.bind_unix(rest, settings.group) if kind == "unix" else listeners.bind_tcp(rest)


def _is_owed_a_start(settings: every.Settings) -> bool:
    """Whether a daemon is to run at once: there is an engine, and its daemon has not fallen asleep since the boot.

    It is a boot then, or the daemon has died. In either case containers may wait for their restart policies.
    """
    return os.path.exists(os.path.join(settings.data_root, "engine.db")) and slumber.find(settings.exec_root) is None


def _program() -> str | bytes | None:
    """The sleeper: its path, or its content for an engine in one file; None where it was not built."""
    root = origin.root()
    if root is None:
        return origin.compiled(_PROGRAM)
    path = os.path.join(root, "_muxer", _PROGRAM)
    return path if os.access(path, os.X_OK) else None


def _executable(program: str | bytes) -> str | int:
    """What os.execve takes: the path, or the descriptor of a file in memory that has the content. Raises OSError."""
    if isinstance(program, str):
        return program
    memory = os.memfd_create(_PROGRAM, os.MFD_CLOEXEC)
    with open(memory, "wb", closefd=False) as file:
        file.write(program)
    return memory


def _moved(opened: list[socket.socket]) -> list[int]:
    """Make the sockets the descriptors from 3 on, which a program that is executed inherits.

    They may take the place of the descriptor by which an engine in one file loads its modules: load none after this.
    """
    count = len(opened)
    copies = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST + count) for each in opened]
    for each in opened:
        each.detach()
    return [os.dup2(copy, _FIRST + number) for number, copy in enumerate(copies)]
