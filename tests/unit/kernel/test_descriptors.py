"""Descriptors that a forked process closes."""

import os

from engine.kernel.descriptors import close_all_but


def test_all_descriptors_but_some_are_closed() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            kept = [os.open("/", os.O_PATH) for _ in range(6)][1::2]
            close_all_but(kept)
            listed = {int(name) for name in os.listdir("/proc/self/fd")}
            left = {fd for fd in listed if os.path.lexists(f"/proc/self/fd/{fd}")}  # without the listing's own
            os._exit(0 if left - {0, 1, 2} == set(kept) else 1)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
