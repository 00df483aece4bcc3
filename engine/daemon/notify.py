"""Tells systemd how the daemon is: that it is ready, reloads, or stops (the protocol of sd_notify(3)).

Runs in the daemon's main thread. Where the service manager asked for nothing (no NOTIFY_SOCKET), it does nothing. A
message that cannot be sent is logged: the daemon serves its clients all the same.
"""

import logging
import os
import socket
import time

log = logging.getLogger(__name__)

MICROSECOND = 1_000_000  # in a second
_PATIENCE = 5.0  # seconds for a manager that does not read its socket


class Manager:
    """The service manager that started this process. address: where it listens, empty for no manager."""

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self) -> None:
        """The daemon serves its clients; also after a reload."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """The daemon reads its configuration again; `ready` tells when it has."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, seconds: float = 0.0) -> None:
        """The daemon ends. seconds: how much longer it may take from now on, where the manager is to wait for that."""
        longer = f"\nEXTEND_TIMEOUT_USEC={int(seconds * MICROSECOND)}" if seconds else ""
        self._tell(f"STOPPING=1{longer}")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_PATIENCE)
                sender.sendto(text.encode(), self._address)
        except OSError as error:
            log.warning("the service manager at %s could not be told %s: %s", self._address, text.split("\n")[0], error)


def manager() -> Manager:
    """The manager of this process. Its address leaves the environment, which programs that the daemon runs inherit."""
    return Manager(os.environ.pop("NOTIFY_SOCKET", ""))
