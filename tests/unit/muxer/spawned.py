"""A spawner in a child process, whose launching halves make fake containers: plain programs with pipes.

A request is a JSON object and its descriptors: the link, and then the clients. What a part of a monitor has to say goes
to the test by the link as JSON too; what the C tells of a container's end comes as it is.
"""

import gc
import json
import os
import pty
import resource
import signal
import socket
import traceback
from collections.abc import Callable

from engine.kernel import syscalls
from engine.logs.jsonwriter import JsonWriter
from engine.logs.openlog import OpenLog
from engine.logs.writer import Writer
from engine.monitor.handover import Handover
from engine.monitor.nativeprocess import Processes
from engine.wire import channel
from engine.wire.schema import Exited, Failed, Started, Warned
from tests.harness.ready import ready

STDIN, STDOUT, STDERR = 1, 2, 4
TOLD = (Warned("said so"), Failed("exec", 2, "no such thing", 127))
"""What a joiner says that fails."""
_FORM = b'"pid":1,"pid_start":1,"started_ns":1'
FORGED = (
    b"W" + channel.datagram(Warned("too late")),
    b"W" + channel.datagram(Started(1, 1, 1)),
    b"F" + channel.datagram(Started(1, 1, 1)),
    b"F" + channel.datagram(Exited(0, 1)),
    b'FJ{"@":"Failed","@":"Started",' + _FORM + b"}",
    b'FJ{"@":"Failed","\\u0040":"Started",' + _FORM + b"}",
    b'FJ{"@":"Failed","text":"\\\\","\\u0040":"Started",' + _FORM + b"}",
    b'FJ{"@":"Failed","text":{"@":"Exited"}}',
    b'FJ{"@":"Started","@":"Failed",' + _FORM + b"}",
    b"FM",
    b"F",
)
"""Reports that no joiner makes, and that nobody is to believe once it has said that it bears a process."""
PATIENCE_S = 20
_SPARE = b"spare"
_SPARE_SIZE = len(_SPARE) + 11


class Spawned:
    """A spawner that was forked from the test. All its processes hold `words`, on which they complain and spares tell
    of themselves: its end is the end of the last of them."""

    def __init__(self, spares: bool = False, nofile: int = 0):
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _guard(writing, lambda: _spawner(theirs, writing, spares, nofile))
        theirs.close()
        os.close(writing)
        self.words = reading

    def wait_for_spare(self) -> int:
        """The process id of the launching half of the next spare, once it waits for its request."""
        assert ready(self.words, PATIENCE_S)
        word = os.read(self.words, _SPARE_SIZE)
        if not word.startswith(_SPARE):
            available = os.read(self.words, 65536) if ready(self.words) else b""
            raise AssertionError(f"no spare, but: {(word + available).decode()}")
        return int(word.removeprefix(_SPARE))

    def ask(self, *clients: socket.socket, mark: bytes = b"J", **request: object) -> socket.socket:
        """Asks for a monitor, and closes the clients' sockets, which are its own now; the test's end of its link."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(PATIENCE_S)
        content = mark + json.dumps(request).encode()
        socket.send_fds(self.requests, [content], [each.fileno() for each in (theirs, *clients)])
        for each in (theirs, *clients):
            each.close()
        return ours

    def end(self) -> int:
        """Ends the spawner, as the daemon's end does; its exit status."""
        self.requests.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def complaints(self) -> str:
        """Waits until no process of this spawner's is left; what they had to complain of."""
        text = b""
        while ready(self.words, PATIENCE_S):
            if not (word := os.read(self.words, 65536)):
                os.close(self.words)
                return b"".join(each for each in text.splitlines(True) if not each.startswith(_SPARE)).decode()
            text += word
        return "some of its processes are still there"


def heard(link: socket.socket) -> dict | None:
    """The next word on the link: what a part said, or `{"@": "Exited", ...}`; None at its end."""
    try:
        data = link.recv(65536)
    except ConnectionResetError:
        return None  # the end, with bytes of the test's unread
    return json.loads(data.removeprefix(b"J")) if data else None


def started(link: socket.socket) -> tuple[dict, int]:
    """What the launching half said when it had made the program, and the program's pidfd."""
    data, (pidfd,), _, _ = socket.recv_fds(link, 4096, 1)
    return json.loads(data), pidfd


def begin(one: Spawned, *clients: socket.socket, **request) -> tuple[socket.socket, dict]:
    """A container that was asked for and has been made."""
    link = one.ask(*clients, **request)
    said, pidfd = started(link)
    os.close(pidfd)
    return link, said


def ended(link: socket.socket) -> int:
    """The exit code that the C told, after which nothing more comes."""
    told = heard(link)
    assert told["@"] == "Exited"
    assert heard(link) is None
    link.close()
    return told["exit_code"]


def stat_field(pid: int, number: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[number - 3])


def _guard(words: int, work: Callable[[], int]) -> None:
    """In a forked child: do the work and end, whatever happens."""
    status = 99
    try:
        status = work()
    except BaseException:
        os.write(words, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _spawner(requests: socket.socket, words: int, spares: bool, nofile: int) -> int:
    # As the true one it has nothing open that it does not need; the test process has.
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in (requests.fileno(), words):
            _close(fd)
    os.set_inheritable(words, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    if nofile:
        resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
    gc.freeze()
    gc.disable()
    stay = Processes()
    part = stay.spawn(requests.fileno(), spares)
    if part.startswith("prepares"):
        os.write(words, _SPARE + b"%10d\n" % os.getpid())
        if not stay.take():
            return 0
    if part == "resolves":
        _resolve(stay)
    elif part == "launches" or part.startswith("prepares"):
        _launch(stay, part)
    return 0


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass  # the listing's own


def _resolve(stay: Processes) -> None:
    """What is no monitor: it says what it has, and lives until its link ends."""
    data, descriptors = stay.request
    if not descriptors:
        return
    link, *others = descriptors
    with socket.socket(fileno=link) as link:
        told = {"asked": data.decode(), "pid": os.getpid(), "children": "", "descriptors": len(others)}
        with open("/proc/thread-self/children") as children:
            told["children"] = children.read()
        link.send(json.dumps(told).encode())
        link.recv(1)


def _understood(data: bytes, descriptors: list[int]) -> dict | None:
    """What is asked for; None for what is no request."""
    try:
        asked = json.loads(data[1:])
    except ValueError:
        return None
    return asked if descriptors and isinstance(asked, dict) and asked.keys() & {"script", "fails"} else None


def _served(asked: dict, clients: list[int], detach: bytes) -> list[tuple[int, int, bool, bytes, bool]]:
    """The clients as they are handed over. streams: those of each, or those of all."""
    streams = asked.get("streams", 0)
    each = streams if isinstance(streams, list) else [streams] * len(clients)
    replay = asked.get("replay", False)
    return [(fd, its, True, detach, replay) for fd, its in zip(clients, each, strict=True)]


def _launch(stay: Processes, part: str) -> None:
    """The launching half: a program with pipes instead of a container."""
    data, descriptors = stay.request
    if (asked := _understood(data, descriptors)) is None:
        return
    link, *clients = descriptors
    link = socket.socket(fileno=link)
    if "exec" in asked:
        _launch_exec(stay, part, asked, link, clients)
        return
    if asked.get("fails") == "before":
        return
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{asked['directory']}/monitor.sock")
    listener.listen(4)
    pid, stdin, outputs = _run(asked)
    pidfd = os.pidfd_open(pid)
    said = json.dumps({"pid": pid, "launcher": os.getpid(), "prepared": part == "prepares"}).encode()
    socket.send_fds(link, [said], [pidfd])
    if asked.get("fails") == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    stay.hand_over(
        Handover(
            pid=pid,
            pid_start=syscalls.process_start(pid),
            started_ns=1234,
            pidfd=pidfd,
            listener=listener.fileno(),
            link=link.fileno(),
            exec_dir=os.open(asked["directory"], os.O_PATH),
            mounts=os.open("/proc/self/ns/mnt", os.O_RDONLY) if asked.get("mounts") else -1,
            tty=asked.get("tty", False),
            stdin_once=True,
            input=stdin,
            outputs=outputs,
            clients=_served(asked, clients, b"\x10\x11"),
            log=_log(asked),
        )
    )


def _log(asked: dict) -> OpenLog | None:
    """json: it is of JSON lines, and compresses"""
    place, size = f"{asked['directory']}/log", asked.get("max_size", 0)
    if asked.get("json"):
        os.mkdir(place)
        return JsonWriter(place, "j.log", size, 9, b'"attrs":{"a":"b"},', compress=True)
    return Writer(place, size, 9) if asked.get("log", True) else None


def _launch_exec(stay: Processes, part: str, asked: dict, link: socket.socket, clients: list[int]) -> None:
    """The launching half of an exec: it hands over first, and tells of its program afterwards. exec: in which way."""
    link.send(json.dumps({"part": part, "launcher": os.getpid()}).encode())
    (reading, stdin), (out, to_out) = os.pipe(), os.pipe()
    served = _served(asked, clients, b"")
    tty = asked["exec"] == "terminal"
    ends = (-1, {}) if tty else (stdin, {1: out})
    stay.hand_over(Handover(0, 0, 0, -1, -1, link.fileno(), -1, -1, tty, True, *ends, served, None))
    report = socket.socket(fileno=stay.reports)
    if tty:
        master, slave = pty.openpty()
        reading = to_out = slave
        socket.send_fds(report, [b"T"], [master])
    for number, fd in enumerate((reading, to_out, to_out)):
        os.dup2(fd, number)
    if asked["exec"] == "fails":
        for mark, message in zip((b"W", b"F"), TOLD, strict=True):
            report.send(mark + channel.datagram(message))
        return
    arguments = [b"sh", b"-c", asked["script"].encode()]
    if asked["exec"] == "traced":
        report.send(b"B0")
        said, saying = os.pipe()
        pid = os.fork()
        if pid == 0:
            _say_what_one_likes(report, (b"X%d", b"B%d"))
            os.close(saying)
            os.execve("/bin/sh", arguments, {})
        os.close(saying)
        os.read(said, 1)
        report.send(b"B%d" % pid)
        return
    if asked["exec"] == "forks":
        pid = os.fork()
        if pid == 0:
            for fd in (link.fileno(), report.fileno()):
                os.set_inheritable(fd, False)
            os.execve("/bin/sh", arguments, {})
        report.send(b"B%d" % pid)
        return
    report.send(b"X%d" % stay.newborn(b"/bin/sh", arguments, {b"COLOUR": b"red"}, tty))


def _say_what_one_likes(report: socket.socket, of_joiner: tuple[bytes, ...]) -> None:
    """Say what a program may that traces the newborn, with a descriptor each time."""
    os.set_inheritable(report.fileno(), False)
    zero = os.open("/dev/zero", os.O_RDWR | os.O_CLOEXEC)
    for word in (b"T", *(each % os.getppid() for each in of_joiner), b"B1", b"", *FORGED):
        socket.send_fds(report, [word or b"?"], [zero])


def _run(asked: dict) -> tuple[int, int, dict[int, int]]:
    """Runs the program; its process id, its stdin, and its outputs by stream."""
    if asked.get("tty"):
        master, slave = pty.openpty()
        given, stdin, outputs = (slave, slave, slave), os.dup(master), {1: master}
    else:
        (reading, stdin), (out, to_out), (err, to_err) = os.pipe(), os.pipe(), os.pipe()
        given, outputs = (reading, to_out, to_err), {1: out, 2: err}
    pid = os.fork()
    if pid == 0:
        for number, fd in enumerate(given):
            os.dup2(fd, number)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execv("/bin/sh", ["sh", "-c", asked["script"]])
    for fd in set(given):
        os.close(fd)
    if not asked.get("streams_kept", True):
        for fd in (stdin, *outputs.values()):
            os.close(fd)
        return pid, -1, {}
    return pid, stdin, outputs
