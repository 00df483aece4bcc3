"""The driver `null`: containers have no network but their loopback interface.

There is one network of this driver, and no device is ever made for it. Pure.
"""

from collections.abc import Iterable

from engine.daemon.network.record import Network
from engine.errors import Forbidden


def check(network: Network, others: Iterable[Network]) -> None:
    """Raise Forbidden for a second network of this driver: the one that may exist is predefined."""
    if any(other.driver == "null" and other.id != network.id for other in others):
        raise Forbidden('only one instance of "null" network is allowed')


def device(_: Network) -> str:
    """The empty name, as the network has no device."""
    return ""


def gateways(_: Network) -> tuple[bool, bool]:
    """False for both families, as the network has no addresses."""
    return False, False
