"""A daemon whose kernel has no nf_tables, as far as the daemon and all that it starts can see.

`python -m tests.harness.lacking COMMAND...` installs a seccomp filter that refuses sockets of NETLINK_NETFILTER with
the errno of a kernel that lacks them, and executes the command. Run on the daemon's machine, by `Lacking`.
"""

import errno
import os
import struct
import sys

from engine.kernel import syscalls
from tests.harness.daemon import Daemon

_SOCKET = {"x86_64": 41, "aarch64": 198, "riscv64": 198, "armv7l": 281}
_NETLINK, _NETFILTER = 16, 12
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _FAMILY, _PROTOCOL = 0, 16, 32  # places in struct seccomp_data, of the lower halves of arguments


def program() -> bytes:
    """The filter, an array of struct sock_filter."""
    steps = [
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 5, _SOCKET[syscalls.machine()]),
        (_LOAD, 0, 0, _FAMILY),
        (_EQUAL, 0, 3, _NETLINK),
        (_LOAD, 0, 0, _PROTOCOL),
        (_EQUAL, 0, 1, _NETFILTER),
        (_RETURN, 0, 0, _ERRNO | errno.EPROTONOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


class Lacking(Daemon):
    """A daemon without nf_tables."""

    def arguments(self) -> list[str]:
        """Those of any daemon, behind the filter."""
        return [sys.executable, "-m", "tests.harness.lacking", *super().arguments()]


if __name__ == "__main__":
    syscalls.seccomp_load(program())
    os.execvp(sys.argv[1], sys.argv[1:])
