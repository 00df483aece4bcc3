"""A monitor's use of its log: finding what an attaching client has missed, and compressing rotated files.

Runs in the monitor's one thread. The compression runs in a child process, so that the container need not wait for it.
"""

import os
import signal

from engine.kernel import title
from engine.logs import format
from engine.logs.openlog import OpenLog
from engine.monitor.contract import Pump
from engine.wire.schema import Attach


def missed(log: OpenLog | None, pump: Pump, asked: Attach) -> bytes:
    """The bytes that came into a log of JSON lines after the daemon has sent the client what it had read of the log.

    Nothing is written to the log meanwhile, because the pump does not run.
    """
    if asked.after is None or log is None:
        return b""
    client = asked.client
    streams = frozenset(stream for stream in format.STREAMS if client.streams & 1 << stream)
    pieces = list(log.later(asked.after))
    pieces += [(stream, text) for stream in format.STREAMS if (text := pump.unfinished(stream))]
    return b"".join(
        format.FRAME.pack(stream, len(text)) + text if client.framed else text
        for stream, text in pieces
        if stream in streams
    )


class Compression:
    """The child process that compresses the older files of a log; `fd` is readable when it has ended."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        self._pid = os.fork()
        if self._pid == 0:
            self._work()
        self.fd = os.pidfd_open(self._pid)

    def _work(self) -> None:
        status = 1
        try:
            title.name("compress")
            # Descriptors of clients that stayed open here would keep their connections alive.
            directory_fd = self._log.directory_fd
            os.closerange(0, directory_fd)
            os.closerange(directory_fd + 1, 1 << 20)
            self._log.compress_older()
            status = 0
        finally:
            os._exit(status)

    def end(self, unwanted: bool = False) -> None:
        """Reap the child, and let the log be rotated again.

        unwanted: the child is killed; it need not finish
        """
        if unwanted:
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self.fd)
        self._log.compressed(unwanted)
