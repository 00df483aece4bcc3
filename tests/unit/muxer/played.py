"""A pump with the test in the place of its container: the pipes, the clients, and turns that are counted."""

import os
import socket
import struct

from tests.harness.ready import ready

STDIN, STDOUT, STDERR = 1, 2, 4
TURN = 9  # so often what is always ready is told until clients have been read once


def frame(stream: int, data: bytes) -> bytes:
    """One frame as clients get it."""
    return struct.pack(">BxxxI", stream, len(data)) + data


class Container:
    """A pump with pipes for a container's stdio, played by the test, and a wake-up to bound a run."""

    def __init__(self, twin, log, tty=False, stdin=None):
        self.log = log
        self.pump = twin.Pump(log, tty)
        self.outputs = {}
        for stream in (1, 2):
            reading, self.outputs[stream] = os.pipe()
            self.pump.add_output(stream, reading)
        self.stdin = -1
        if stdin is not None:
            self.stdin, writing = os.pipe()
            self.pump.set_input(writing, close_on_eof=stdin == "once")
        self.wake, self._waker = os.pipe()
        self.pump.watch(self.wake)
        os.write(self._waker, b"x")
        self.peers: list[socket.socket] = []
        self.told: list[tuple] = []

    def client(self, streams=STDIN | STDOUT | STDERR, framed=True, detach=b"", replay=False, buffer=0, head=b""):
        """head: what it was sent before it comes to the pump."""
        near, far = socket.socketpair()
        if buffer:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        near.settimeout(10)
        far.sendall(head)
        self.peers.append(near)
        number = self.pump.add_client(far.detach(), streams, framed, detach, replay)
        return near, number

    def settle(self, turns=4) -> list[tuple]:
        """Turns the pump until it has nothing to tell but the wake-up, several times; what else it told."""
        told, quiet = [], 0
        while quiet < turns * TURN:
            event = self.pump.run()
            if event == ("readable", self.wake):
                quiet += 1
            else:
                told.append(event)
                quiet = 0
        self.told += told
        return told

    def say(self, stream, data) -> list[tuple]:
        os.write(self.outputs[stream], data)
        return self.settle()

    def end(self, stream) -> None:
        os.close(self.outputs.pop(stream))

    def close(self) -> None:
        self.pump.close()
        for peer in self.peers:
            peer.close()
        for fd in (*self.outputs.values(), self.wake, self._waker, *([self.stdin] if self.stdin >= 0 else [])):
            os.close(fd)


def receive(peer: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer at the end."""
    data = b""
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            break
        data += part
    return data


def nothing_more(peer: socket.socket) -> bool:
    """True when there is nothing to read now."""
    return available(peer) == b""


def available(peer: socket.socket, size: int = 1 << 20) -> bytes:
    """What can be had without waiting; a Python socket with a timeout waits whatever the flags."""
    return peer.recv(size) if ready(peer) else b""
