"""Runs one command each time a datagram asks for it, inside namespaces that were made once.

A process of its own, started as a file by `direct` within `Isolated`. It is single-threaded and small, so that the
start of a command costs no more than a vfork. Its first argument is a descriptor, the others are the command. For each
datagram on the descriptor it runs the command, and answers with the exit code and the output. It ends when the other
end closes the socket.
"""

import os
import socket
import sys


def main(descriptor: int, argv: list[str]) -> None:
    """Answer datagrams until the other end is closed."""
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
