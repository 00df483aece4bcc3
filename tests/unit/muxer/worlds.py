"""A spawner and its monitors beside a model of them: what happens to them is foreseen.

A test tells a `World` what happens. The world does it to true processes, and asserts that they do what the model says:
each request is answered once, each byte arrives, and nobody holds what belongs to others.
"""

import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.wire import codec, waits
from engine.wire.schema import Exited, Started
from engine.wire.waits import Wait
from tests.unit.muxer.modelled import Container, Program
from tests.unit.muxer.played import receive
from tests.unit.muxer.seen import (
    all_processes,
    check_streams,
    children,
    gather,
    has_ended,
    has_only,
    held,
    is_reaped,
    name_of,
    stat_field,
    streams_of,
    until,
)
from tests.unit.muxer.spawned import PATIENCE_S, STDERR, STDIN, STDOUT, Spawned, heard


class World:
    """A spawner, and all that was asked of it. `close` ends every process of it, whatever has happened."""

    def __init__(self, directory: Path, spares: bool, nofile: int) -> None:
        self.directory, self.spares, self.nofile = directory, spares, nofile
        self.one = Spawned(spares, nofile)
        self.words = os.fstat(self.one.words).st_ino
        self.containers: list[Container] = []  # those that have not ended
        self.resolvers: list[tuple[int, int, socket.socket]] = []  # their pids, pidfds, and links
        self.inodes: set[int] = set()  # of all that was ever sent
        self.doomed: list[int] = []  # pidfds of what launchers left
        self.number, self.execs_asked, self.rested, self.spawner_ended = 0, False, False, False

    def close(self) -> None:
        """Kill what is left. After a test that has passed there is nothing."""
        for pidfd in (*self.doomed, *(each.pidfd for each in self.containers if each.pid)):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        while found := [pid for pid in all_processes() if pid != os.getpid() and self.words in held(pid)]:
            for pid in [*found, *(child for parent in found for child in children(parent))]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.one.pid, os.WNOHANG)

    # What is asked of the spawner.

    def start(self, program: Program, streams: list[int], mark: bytes) -> None:
        """Ask for a container. Nothing waits for its begin."""
        if not self.spawner_ended:
            self._ask_for(program, streams, mark, {})

    def exec(self, program: Program, streams: list[int], mark: bytes, way: str) -> None:
        """Ask for an exec. way: of making its process."""
        if not self.spawner_ended:
            self.execs_asked |= mark == b"E"
            self._ask_for(program, streams, mark, {"exec": way})

    def _directory(self) -> Path:
        self.number += 1
        (made := self.directory / str(self.number)).mkdir()
        return made

    def _ask_for(self, program: Program, streams: list[int], mark: bytes, more: dict[str, object]) -> None:
        directory = self._directory()
        os.mkfifo(gate := directory / "gate")
        if program.typed is not None:
            streams = [STDIN | STDOUT | STDERR, *streams]
        pairs = [socket.socketpair() for _ in streams]
        near = [ours for ours, _ in pairs]
        asked = {"directory": str(directory), "script": program.script(gate), "streams": streams} | more
        must, self.rested = self.rested and mark == b"O" and not self.execs_asked, False
        link, owned = self._ask(mark + json.dumps(asked).encode(), [theirs for _, theirs in pairs])
        if program.typed is not None:
            near[0].sendall(program.typed)
            near[0].shutdown(socket.SHUT_WR)
        opened, may = os.open(gate, os.O_RDWR | os.O_NONBLOCK), self.spares and mark in b"OE"
        self.containers.append(
            Container(program, bool(more), directory, opened, link, [*near], streams, owned, may, must)
        )

    def _ask(self, content: bytes, passed: list[socket.socket]) -> tuple[socket.socket, list[int]]:
        """Send a request; the near end of its link, and the inodes of what it has now, which the test has no more."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(PATIENCE_S)
        fds = [each.fileno() for each in (theirs, *passed)]
        owned = [os.fstat(fd).st_ino for fd in fds]
        self.inodes |= set(owned)
        socket.send_fds(self.one.requests, [content], fds)
        for each in (theirs, *passed):
            each.close()
        return ours, owned

    def resolve(self, count: int) -> None:
        """Ask for the resolver, with so many descriptors beside its link."""
        if self.spawner_ended:
            return
        self.rested = False
        near, far = socket.socketpair()
        link, _ = self._ask(b"Rbe it", [far.dup() for _ in range(count)])
        far.close()
        told = heard(link)
        assert told == {"asked": "Rbe it", "pid": told["pid"], "children": "", "descriptors": count}
        self.resolvers.append((told["pid"], os.pidfd_open(told["pid"]), link))
        near.close()

    def fail(self, how: dict[str, str]) -> None:
        """Ask for what comes to nothing by itself. An exec's failure is told, and a container's is the link's end."""
        if self.spawner_ended:
            return
        self.rested = False
        directory = self._directory()
        near, far = socket.socketpair()
        near.settimeout(PATIENCE_S)
        asked = {"directory": str(directory), "script": "exec sleep 1000", "streams": STDOUT} | how
        link, _ = self._ask(b"J" + json.dumps(asked).encode(), [far])
        with link, near:
            if "exec" in how:
                said = [heard(link), heard(link), heard(link)]
                assert said[0]["part"] == "launches" and [each["@"] for each in said[1:]] == ["Warned", "Failed"]
            elif how["fails"] == "after":
                _, (pidfd,), _, _ = socket.recv_fds(link, 4096, 1)
                self.doomed.append(pidfd)
                until(lambda: is_reaped(pidfd), "what a launcher has left is not killed")
            assert heard(link) is None
            assert near.recv(1) == b""

    def malformed(self, content: bytes, count: int) -> None:
        """Send what is no request, with so many descriptors. Whoever holds the other ends of these sees their end."""
        if self.spawner_ended:
            return
        self.rested = False
        self.execs_asked |= content.startswith(b"E")  # which is for a monitor to read: a spare for execs is made
        if count == 0:
            self.one.requests.send(content)
            return
        near, far = socket.socketpair()
        near.settimeout(PATIENCE_S)
        passed = [far.dup() for _ in range(count - 1)]
        far.close()
        link, _ = self._ask(content, passed)
        with near, link:
            assert heard(link) is None
            assert near.recv(1) == b""

    def end_spawner(self, empty: bool) -> None:
        """The daemon ends. empty: it sends an empty datagram, which is the same to whoever reads it."""
        if self.spawner_ended:
            return
        self.spawner_ended = True
        if empty:
            self.one.requests.send(b"")
        else:
            self.one.requests.close()
        assert os.waitstatus_to_exitcode(os.waitpid(self.one.pid, 0)[1]) == 0
        self.one.requests.close()

    def rest(self) -> None:
        """Until a spare waits, which the next request has to be given."""
        if self.spares and not self.spawner_ended:
            self._all_begun()
            until(lambda: len(self._spares()) >= 1, "no spare is made")
            self.look()
            self.rested = True

    # What happens to a container.

    def _one(self, number: int) -> Container | None:
        """One of those that have not ended, once it has begun."""
        if not self.containers:
            return None
        one = self.containers[number % len(self.containers)]
        self._begun(one)
        return one

    def halt(self, number: int) -> None:
        """A monitor has no processor for a while, so that it finds several things done at once."""
        one = self._one(number)
        if one is not None:
            one.is_halted = True
            signal.pidfd_send_signal(one.keeper_pidfd, signal.SIGSTOP)

    def _go_on(self, one: Container) -> None:
        if one.is_halted:
            signal.pidfd_send_signal(one.keeper_pidfd, signal.SIGCONT)
        one.is_halted = False

    def _all_begun(self) -> None:
        for each in self.containers:
            self._begun(each)

    def _begun(self, one: Container) -> None:
        """Wait until it runs, and hear all that is told of it."""
        if one.pid:
            return
        assert one.link is not None
        if one.is_exec:
            said = heard(one.link)
            prepared = said["part"] == "prepares exec"
            started = codec.decode(one.link.recv(4096).removeprefix(b"J"))
            assert isinstance(started, Started)
            one.pid, one.started_ns, one.pidfd = started.pid, started.started_ns, os.pidfd_open(started.pid)
            assert started.pid_start == stat_field(one.pid, 22)
        else:
            data, (one.pidfd,), _, _ = socket.recv_fds(one.link, 4096, 1)
            said = json.loads(data)
            one.pid, prepared = said["pid"], said["prepared"]
        assert one.may_be_prepared or not prepared
        assert prepared or not one.must_be_prepared
        until(lambda: stat_field(one.pid, 4) != said["launcher"], "the launcher does not end")
        one.keeper = stat_field(one.pid, 4)
        one.keeper_pidfd = os.pidfd_open(one.keeper)

    def leave(self, number: int, which: int) -> None:
        """A client closes its connection, unless the container reads of it."""
        one = self._one(number)
        if one is None or not one.clients:
            return
        which %= len(one.clients)
        typist = which == 0 and one.program.typed is not None
        if not typist and (client := one.clients[which]) is not None:
            with client:
                data = client.recv(1 << 20) if select.select([client], [], [], 0)[0] else b""
            one.clients[which] = None
            check_streams(one.program.bytes_of(one.is_exec), data, one.streams[which], whole=False, cut=True)

    def lose(self, number: int) -> None:
        """The daemon of one monitor is gone."""
        one = self._one(number)
        if one is not None and one.link is not None:
            one.link.close()
            one.link, one.orphans = None, len(one.waiting)

    def home(self, number: int) -> None:
        """The daemon gives an exec a home: a record, and a socket at which the next daemon finds it."""
        one = self._one(number)
        if one is None or not one.is_exec or one.has_home or one.link is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, open(one.directory / "exit", "wb") as to:
            listener.bind(str(one.directory / "monitor.sock"))
            listener.listen(4)
            socket.send_fds(one.link, [b"H"], [to.fileno(), listener.fileno()])
        one.has_home = True

    def meet(self, number: int) -> None:
        """A new daemon comes, is told of the same process, and takes the place of the one before."""
        one = self._one(number)
        if one is None or (one.is_exec and not one.has_home):
            return
        self._go_on(one)
        new = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        new.settimeout(PATIENCE_S)
        new.connect(str(one.directory / "monitor.sock"))
        told = codec.decode(new.recv(4096).removeprefix(b"J"))
        assert told == Started(one.pid, stat_field(one.pid, 22), one.started_ns, keeps_waiters=True, wakes=True)
        if one.link is not None:
            assert heard(one.link) is None
            one.link.close()
        one.link, one.orphans = new, len(one.waiting)

    def wait(self, number: int) -> None:
        """The daemon gives a monitor someone who waits for the end of its container."""
        one = self._one(number)
        if one is None or one.is_exec or one.link is None:
            return
        self._go_on(one)
        wait = Wait(len(one.waiting), False, True, (b"1:", b"2:", b"3:"), b";")
        near, far = socket.socketpair()
        near.settimeout(PATIENCE_S)
        with far:
            inode = os.fstat(far.fileno()).st_ino
            socket.send_fds(one.link, [waits.pack(wait)], [far.fileno()])
        one.waiting.append((wait, near))
        until(lambda: inode in held(one.keeper), "the monitor does not take one who waits")

    def finish(self, number: int, killed: bool) -> None:
        """A container ends: as its program says, or by SIGKILL at any moment."""
        one = self._one(number)
        if one is None:
            return
        if killed:
            signal.pidfd_send_signal(one.pidfd, signal.SIGKILL)
        else:
            os.write(one.gate, b"\n")
        if one.is_halted and (killed or one.program.fits_pipes):
            until(lambda: has_ended(one.pidfd), "the container does not end")
        self._go_on(one)
        code = 128 + signal.SIGKILL if killed else one.program.told
        got = gather([each for each in one.clients if each is not None])
        self._told(one, code)
        until(lambda: has_ended(one.keeper_pidfd), "the monitor does not end")
        until(lambda: is_reaped(one.pidfd), "the container is left as a zombie")
        if not one.is_exec or one.has_home:
            exited = codec.decode((one.directory / "exit").read_bytes())
            assert exited == Exited(code, exited.finished_ns, one.started_ns)
        expected, whole = one.program.bytes_of(one.is_exec), not killed
        if not one.is_exec:
            logged = (one.directory / "log" / "00000001.log").read_bytes()
            check_streams(expected, logged, STDOUT | STDERR, whole)
            expected, whole = streams_of(logged)[0], True
        for client, streams in zip(one.clients, one.streams, strict=True):
            if client is not None:
                check_streams(expected, got[client], streams, whole)
                client.close()
        for each in (one.gate, one.pidfd, one.keeper_pidfd):
            os.close(each)
        self.containers.remove(one)

    def _told(self, one: Container, code: int) -> None:
        """The daemon and those who wait are told of the end, once."""
        if one.link is not None:
            exited = codec.decode(one.link.recv(4096).removeprefix(b"J"))
            assert exited == Exited(code, exited.finished_ns, one.started_ns, len(one.waiting))
            for wait, _ in one.waiting[one.orphans :]:
                one.link.send(waits.pack_answered(wait.number))
            if one.orphans:
                one.link.send(waits.SETTLED)
            assert heard(one.link) is None
            one.link.close()
        for number, (wait, near) in enumerate(one.waiting):
            with near:
                answer = wait.answer(code) if number < one.orphans else b""
                assert receive(near, len(answer) + 1) == answer

    # What can be seen from outside.

    def look(self) -> None:
        """Nobody holds what belongs to others, and there is no process that nobody asked for."""
        self._all_begun()
        for one in self.containers:
            self._go_on(one)
        if not self.spawner_ended:
            until(lambda: not self.inodes & held(self.one.pid), "the spawner keeps what was sent to it")
            until(self._is_family_sound, "the spawner has other children than the model")
        pipes: list[int] = []
        for one in self.containers:
            assert not (self.inodes - set(one.owned)) & held(one.keeper)
            clients = zip(one.owned[1:], one.clients, strict=True)
            present = {inode for inode, client in clients if client is not None}
            until(lambda own=set(one.owned[1:]), of=one, all=present: own & held(of.keeper) == all, "clients are kept")
            until(lambda of=one: children(of.keeper) == [of.pid], "the monitor has other children than the container")
            until(
                lambda of=one: has_only(of.pid, of.directory / "gate", self.words),
                "a container has more than its own",
            )
            pipes += held(one.pid)
        assert len(pipes) == len(set(pipes))

    def _spares(self) -> list[int]:
        """The monitors that wait for their request."""
        found = [pid for pid in children(self.one.pid) if name_of(pid) == "engine spare"]
        return [pid for pid in found if not any(self.inodes & held(child) for child in children(pid))]

    def _is_family_sound(self) -> bool:
        spares = set(self._spares())
        known = {one.keeper for one in self.containers} | {pid for pid, _, _ in self.resolvers}
        return len(spares) <= self.spares * (1 + self.execs_asked) and {*children(self.one.pid)} - spares == known

    def end(self) -> None:
        """Everything ends, and nothing is left."""
        self.look()
        while self.containers:
            self.finish(0, False)
        for pid, pidfd, link in self.resolvers:
            assert not has_ended(pidfd), f"{pid} did not wait for the end of its link"
            link.close()
            until(lambda of=pidfd: has_ended(of), "the resolver does not end")
            os.close(pidfd)
        self.resolvers.clear()
        self.look()
        self.end_spawner(empty=False)
        assert self.one.complaints() == ""


@contextmanager
def world(directory: Path, spares: bool, nofile: int) -> Iterator[World]:
    """A world in an empty directory. Whatever happens in it, none of its processes is left."""
    made = World(directory, spares, nofile)
    try:
        yield made
        made.end()
    finally:
        made.close()
