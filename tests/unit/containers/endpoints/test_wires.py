"""The devices of networks that another client removes while they are made."""

from types import SimpleNamespace

import pytest

from engine.daemon.api.handlers import networks as handlers
from engine.daemon.containers.endpoints import wires
from engine.daemon.network import remove
from engine.dataclass import replace
from engine.errors import SystemFailure
from tests.unit.containers.endpoints.kernel import Kernel, engine_with


class Making(Kernel):
    """A kernel in which each device is new, and meanwhile something happens."""

    meanwhile = staticmethod(lambda network: None)

    def ensure(self, network):
        super().ensure(network)
        self.meanwhile(network)
        if self.failing == "after":
            raise SystemFailure("no")
        return True

    def close_network(self, network):
        self._note(f"close {network.name}")

    def remove(self, network, others=()):
        self._note(f"remove {network.name} beside {' '.join(sorted(each.name for each in others if each.device))}")

    def knows(self, network):
        return True


@pytest.fixture
def kernel():
    return Making()


@pytest.fixture
def engine(tmp_path, kernel):
    return engine_with(kernel, tmp_path)


def test_a_device_that_is_made_after_its_networks_removal_does_not_stay(engine, kernel):
    network = engine.networks.find("net")
    remove.remove(engine, network)
    kernel.calls.clear()
    wires.bring_up(engine, network)
    assert kernel.calls == ["ensure net", "attach net", "close net", "remove net beside bridge inner"]
    kernel.calls.clear()
    wires.bring_up(engine, engine.networks.find("inner"))
    assert kernel.calls == ["ensure inner", "attach inner"]


@pytest.mark.parametrize("failing", ["", "after"])
def test_a_network_that_goes_while_its_create_makes_the_device_leaves_none_and_its_error_is_the_first(
    engine, kernel, failing
):
    engine.settings = replace(engine.settings, as_dockerd=True)
    kernel.meanwhile, kernel.failing = lambda network: remove.remove(engine, network), failing
    body = {"Name": "new"}
    request = SimpleNamespace(version=(1, 47), required_json=lambda _: body)
    if failing:
        with pytest.raises(SystemFailure, match=r"^no$"):
            handlers.create(engine, request)
    else:
        handlers.create(engine, request)
        assert kernel.calls[-2:] == ["close new", "remove new beside bridge inner net"]
    assert "new" not in [network.name for network in engine.networks.all()]
