"""The spawner's loop without the C muxer: forks a process for each request, and keeps one spare for the next start.

Runs in the spawner's one thread. The spare is a monitor whose init has made ahead of its request what every ordinary
container has. It is forked when no request has come for a moment, because its making would take a processor from a
start that is under way. `_muxer/process/spawner.c` is this loop in C.
"""

import os
import select
import socket
from collections.abc import Callable, Mapping

from engine.errors import Invalid
from engine.monitor import main as monitor
from engine.monitor.parts import Parts
from engine.wire.channel import ORDINARY, Channel

QUIET_MS = 5
"""Without a request for so long, a spare is made, which takes a processor for about as long."""

Service = Callable[[bytes, list[int]], int]


def serve(requests: Channel, made_of: Parts, stage: str, services: Mapping[bytes, Service]) -> int:
    """Fork for each request until the daemon is gone; returns the exit status, in the spawner and in what it forks.

    stage: an empty directory in which a spare prepares; services: by the first byte of a request, what is run for it in
    the place of a monitor
    """
    spare = _Spare()
    while True:
        if spare.is_due(requests):
            ours, theirs = Channel.pair()
            if os.fork() == 0:
                requests.close()
                ours.close()
                spare.close()
                return monitor.be_spare(theirs, made_of, stage)
            theirs.close()
            spare.waits = ours
            continue
        try:
            request = requests.receive_packed()
        except Invalid:
            continue  # the daemon sees the end of the request's link
        if request is None:
            return 0
        data, descriptors = request
        if not spare.takes(data, descriptors) and os.fork() == 0:
            requests.close()
            spare.close()
            service = services.get(data[:1])
            return service(data, descriptors) if service is not None else monitor.main(data, descriptors, made_of)
        for descriptor in descriptors:
            os.close(descriptor)


class _Spare:
    """The channels of the spare that waits, and of the last one, which hangs up when its container has been started."""

    def __init__(self) -> None:
        self.waits: Channel | None = None
        self._starts: Channel | None = None

    def is_due(self, requests: Channel) -> bool:
        """Wait for a request, and return False; or until a spare is to be made, and return True."""
        if self.waits is not None:
            return False
        poll = select.poll()
        poll.register(requests, select.POLLIN)
        if self._starts is not None:
            poll.register(self._starts, 0)
        ready = [descriptor for descriptor, _ in poll.poll(QUIET_MS if self._starts is None else None)]
        if requests.fileno() in ready:
            return False
        if self._starts is not None:
            self._starts.close()
            self._starts = None
        return True

    def takes(self, data: bytes, descriptors: list[int]) -> bool:
        """Give the spare this request, if it is one for it. False where none is there, or the one that was has died."""
        if self.waits is None or not data.startswith(ORDINARY["Start"]):
            return False
        if self._starts is not None:
            self._starts.close()
        self._starts, self.waits = self.waits, None
        try:
            socket.send_fds(self._starts.socket, [data], descriptors, socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """In a child of the spawner: a spare ends when every copy of the spawner's end of its channel is closed."""
        for each in (self.waits, self._starts):
            if each is not None:
                each.close()
