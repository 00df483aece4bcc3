"""Runs one command again and again when told to, inside namespaces that were made once.

A process of its own, started as a file by `direct` within `Isolated`; single-threaded and small, so that starting a
command costs a vfork and no more. Each datagram on the descriptor named by its first argument makes it run the
command that its other arguments are, and answers with the exit code and the output. It ends when the other end does.
"""

import os
import socket
import sys


def main(descriptor: int, argv: list[str]) -> None:
    """Serve datagrams until the other end is closed."""
    orders = socket.socket(fileno=descriptor)
    orders.set_inheritable(False)
    while orders.recv(1):
        readable, writable = os.pipe()
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writable, 1)])
        os.close(writable)
        output = b""
        while data := os.read(readable, 65536):
            output += data
        os.close(readable)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        orders.send(b"%d %s" % (status, output[:1024]))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
