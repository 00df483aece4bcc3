"""A start's networks: in which order they are made, and that a failure at any step leaves nothing of it."""

import os

import pytest

from engine.daemon.containers.endpoints import ending, moving, starting
from engine.daemon.containers.verbs.create import create
from engine.daemon.network.record import Published
from engine.errors import Conflict, SystemFailure
from engine.kernel import syscalls
from tests.unit.containers.endpoints.kernel import PORT, events


def made(engine, mode="default", *networks, ports=True):
    """A container in these networks, with a published port."""
    host = {"NetworkMode": mode, "PortBindings": {"80/tcp": [{"HostPort": "8080"}]} if ports else {}}
    endpoints = {"EndpointsConfig": {name: {} for name in networks}}
    return create(engine, "web", {"Image": "busybox", "HostConfig": host, "NetworkingConfig": endpoints}, None)[0]


def run(engine, container):
    """The whole start, with this very process as process 1."""
    start = starting.Start(engine, container)
    try:
        start.prepare()
        start.plug(os.getpid(), syscalls.process_start(os.getpid()))
    except BaseException:
        start.undo()
        raise
    return start


def test_the_steps_of_a_start_and_of_an_end(engine, kernel):
    container = made(engine, "net", "net", "bridge")
    run(engine, container)
    assert kernel.calls == [
        "ensure net",
        "ensure bridge",
        "reserve",
        "plug",
        "publish bridge",
        "lead",
        "names bridge net",
    ]
    first, second = engine.networks.endpoints(container_id=container.id)
    assert (first.interface, second.interface) == ("eth0", "eth1")
    assert (first.ports, second.ports) == ((), (PORT,))  # of one priority, the network whose name comes first leads out
    assert first.names[0] == "web" and second.names == ()
    assert events(engine) == ["connect", "connect"]
    kernel.calls.clear()
    ending.release(engine, container)
    assert kernel.calls == ["forget", "withdraw net", "withdraw bridge", "release", "silence"]
    assert engine.networks.endpoints() == [] and events(engine)[2:] == ["disconnect", "disconnect"]


def test_without_ports_and_names_there_is_no_firewall_and_no_resolver(engine, kernel):
    run(engine, made(engine, ports=False))
    assert kernel.calls == ["ensure bridge", "plug"]


@pytest.mark.parametrize("mode", ["none", "host"])
def test_a_network_of_nothing_needs_nothing(engine, kernel, mode):
    container = made(engine, mode)
    run(engine, container)
    assert kernel.calls == [] and len(engine.networks.endpoints(container_id=container.id)) == 1
    ending.release(engine, container)
    assert kernel.calls == ["forget"] and engine.networks.endpoints() == []


@pytest.mark.parametrize("body", [{"NetworkDisabled": True}, {"HostConfig": {"NetworkMode": "container:x"}}])
def test_one_without_a_network_of_its_own_has_no_endpoint(engine, kernel, body):
    container, _ = create(engine, None, {"Image": "busybox", **body}, None)
    run(engine, container)
    assert kernel.calls == [] and engine.networks.endpoints() == [] and events(engine) == []


@pytest.mark.parametrize(
    "step", ["ensure net", "ensure bridge", "reserve", "plug", "publish bridge", "lead", "names bridge net"]
)
def test_a_failure_at_any_step_leaves_nothing(engine, kernel, step):
    container = made(engine, "net", "net", "bridge")
    kernel.failing = step
    with pytest.raises(SystemFailure, match=r"^failed to set up container networking: (.*: )?no$"):
        run(engine, container)
    assert engine.networks.endpoints() == []
    assert ("release" in kernel.calls) is ("reserve" in kernel.calls and step != "reserve")
    assert events(engine) == []
    kernel.failing = ""
    run(engine, container)


def test_a_file_that_cannot_be_written_fails_the_start(engine, kernel, monkeypatch):
    container = made(engine, "net")

    def full(*_of):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.daemon.containers.files.write_hosts", full)
    with pytest.raises(SystemFailure, match="no space left on device"):
        run(engine, container)
    assert engine.networks.endpoints() == [] and "reserve" not in kernel.calls


def test_what_an_end_on_a_full_disk_has_left_goes_with_the_next_start(engine, kernel):
    container = made(engine, "net")
    run(engine, container)
    (before,) = engine.networks.endpoints()
    run(engine, container)
    (after,) = engine.networks.endpoints()
    assert after.id != before.id and after.ipv4 == before.ipv4


def test_a_start_on_a_disk_that_is_still_full_says_so(engine, kernel, monkeypatch):
    """And not that the container is in its network already, which it is by the end that could not be written."""
    container = made(engine, "net")
    run(engine, container)

    def full(_endpoints):
        raise SystemFailure("no space left on device")

    monkeypatch.setattr(engine.networks, "leave", full)
    with pytest.raises(SystemFailure, match=r"^failed to set up container networking: no space left on device$"):
        run(engine, container)
    monkeypatch.undo()
    run(engine, container)
    assert len(engine.networks.endpoints()) == 1


def test_ports_move_to_the_network_that_leads_out(engine, kernel):
    container = made(engine, "inner", "inner")
    run(engine, container)
    assert "reserve" not in kernel.calls
    settings = container.networking["inner"]
    network = engine.networks.find("net")
    container.networking = {**container.networking, "net": {**settings, "NetworkID": network.id}}
    engine.networks.join(container.id, {"net": settings})
    moving.settle(engine, container)
    assert engine.networks.endpoints(network.id)[0].ports == (PORT,) and kernel.calls[-2:] == ["publish net", "lead"]
    kernel.calls.clear()
    moving.settle(engine, container)
    assert kernel.calls == ["reserve"]  # for IPv6, of which there is none
    kernel.calls.clear()
    container.networking["net"]["NetworkID"] = network.id
    engine.networks.leave(engine.networks.endpoints(network.id))
    moving.settle(engine, container)
    assert kernel.calls == []


@pytest.mark.parametrize("step", ["publish net", "lead"])
def test_ports_that_cannot_move_stay_recorded_or_are_given_back(engine, kernel, monkeypatch, step):
    """A port of the host is held as long as an endpoint has it, and no longer, whichever step fails."""
    container = made(engine, "net")
    run(engine, container)
    network = engine.networks.find("net")
    monkeypatch.setattr("engine.daemon.network.gateways.published_through", lambda _: {})
    kernel.failing, kernel.calls[:] = "publish net", []
    moving.settle(engine, container)
    assert kernel.calls == ["publish net"] and engine.networks.endpoints(network.id)[0].ports == (PORT,)
    kernel.failing, kernel.calls[:] = "", []
    moving.settle(engine, container)
    assert kernel.calls == ["publish net", "release"] and engine.networks.endpoints(network.id)[0].ports == ()
    monkeypatch.undo()
    kernel.failing, kernel.calls[:] = step, []
    moving.settle(engine, container)
    assert kernel.calls[-2:] == ["withdraw net", "release"] and engine.networks.endpoints(network.id)[0].ports == ()


def test_new_ports_are_given_back_though_the_rules_of_the_others_cannot_be_made_again(engine, kernel, monkeypatch):
    container = made(engine, "net")
    run(engine, container)
    (endpoint,) = engine.networks.endpoints(container_id=container.id)
    other = Published(80, "tcp", "::", 8080)
    monkeypatch.setattr(kernel, "reserve", lambda *_of: {endpoint.network: (other,)})
    kernel.failing = "publish net"
    moving.settle(engine, container)
    assert kernel.calls[-3:] == ["withdraw net", "publish net", "release"]
    assert engine.networks.endpoints(container_id=container.id)[0].ports == (PORT,)


def test_a_taken_port_is_of_its_kind(engine, kernel, monkeypatch):
    def taken(*_of):
        raise Conflict("Bind for 0.0.0.0:8080 failed: port is already allocated")

    monkeypatch.setattr(kernel, "reserve", taken)
    with pytest.raises(Conflict) as refused:
        run(engine, made(engine))
    assert str(refused.value) == (
        "failed to set up container networking: driver failed programming external connectivity on endpoint web:"
        " Bind for 0.0.0.0:8080 failed: port is already allocated"
    )
