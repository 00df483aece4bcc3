"""A stand-in for everything that touches the kernel when a container joins its networks, and an engine around it."""

import os

from engine.daemon.network.record import Published
from engine.errors import SystemFailure
from tests.harness.parts import Parts, told
from tests.unit.containers.fakes import make_engine

PORT = Published(80, "tcp", "0.0.0.0", 8080)


class Kernel:
    """Stands in for everything that touches the kernel: it notes each call, and fails at the one it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing = ""

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if name == self.failing:
            raise SystemFailure("no")

    def reserve(self, container_id, through, wanted):
        self._note("reserve")
        return {network.id: tuple(PORT for _ in wanted) for network, versions in through if 4 in versions}

    def release(self, container_id, ports=None):
        self.calls.append("release")

    def lead(self, endpoints, pid, pid_start, ruled):
        if any(endpoint.ports for endpoint in endpoints):
            self._note("lead")

    def families(self):
        return (4, 6)

    def ensure(self, network):
        if network.device:
            self._note(f"ensure {network.name}")
        return False

    def plug(self, pairs, netns, others=()):
        self._note("plug")
        assert os.readlink(f"/proc/self/fd/{netns}").startswith("net:")
        return tuple(endpoint for _, endpoint in pairs)

    def unplug(self, network, endpoint, netns, others=()):
        self._note(f"unplug {network.name}")

    def attach(self, network, endpoints):
        self._note(f"attach {network.name}")

    def remaining(self, endpoints):
        return []

    def silence(self, endpoints):
        self._note("silence")

    def publish(self, network, endpoint):
        self._note(f"publish {network.name}")

    def withdraw(self, network, endpoint):
        self.calls.append(f"withdraw {network.name}")

    def join(self, pairs, netns, pid, pid_start, host_config, links):
        self._note(f"names {' '.join(network.name for network, _ in pairs)}")

    def leave(self, endpoints):
        self.calls.append("forget")


def engine_with(kernel: Kernel, root: object) -> Parts:
    """An engine of this kernel, with a network `net` and an internal one, `inner`."""
    engine = make_engine(root)
    engine.wiring = engine.firewall = engine.ports = engine.names = kernel
    engine.networks.create({"Name": "net", "IPAM": {"Config": [{"Subnet": "10.1.0.0/24"}]}})
    engine.networks.create({"Name": "inner", "Internal": True, "IPAM": {"Config": [{"Subnet": "10.2.0.0/24"}]}})
    return engine


def events(engine: Parts) -> list[str]:
    """What was told of networks' members, oldest first."""
    return [each.action for each in told(engine.events) if each.kind == "network" and each.action.endswith("connect")]
