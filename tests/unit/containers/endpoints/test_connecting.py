"""Connect and disconnect of a container that runs: the steps, and what stays when one of them fails."""

import os

import pytest

from engine.daemon.containers import paths
from engine.daemon.containers.endpoints import ending
from engine.daemon.containers.endpoints.connect import connect
from engine.daemon.containers.endpoints.disconnect import disconnect
from engine.daemon.containers.record import State
from engine.daemon.containers.verbs.create import create
from engine.errors import Conflict, SystemFailure
from engine.kernel import syscalls
from tests.unit.containers.endpoints.kernel import PORT, events


@pytest.fixture
def running(engine):
    """A container with a published port that runs, as this very process, in the network `inner`."""
    host = {"NetworkMode": "inner", "PortBindings": {"80/tcp": [{"HostPort": "8080"}]}}
    container, _ = create(engine, "web", {"Image": "busybox", "HostConfig": host}, None)
    container.state = State("running", os.getpid(), syscalls.process_start(os.getpid()), started_ns=1)
    engine.networks.join(container.id, {"inner": container.networking["inner"]})
    return container


def hosts(engine, container):
    """Its file of names."""
    with open(paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).etc("hosts")) as file:
        return file.read()


def kept(engine, container):
    """The networks in its row."""
    with engine.database.reading() as connection:
        (row,) = connection.execute("SELECT settings FROM containers WHERE id = ?", (container.id,))
    return row["settings"]


def test_a_connect_makes_the_wire_and_then_the_record(engine, kernel, running):
    connect(engine, "net", "web", {"Aliases": ["x"]})
    assert kernel.calls == ["ensure net", "plug", "reserve", "publish net", "lead", "names inner net"]
    endpoint = engine.networks.endpoints(engine.networks.find("net").id)[0]
    assert (endpoint.names[:2], endpoint.interface, endpoint.ports) == (("web", "x"), "eth1", (PORT,))
    assert running.networking["net"]["Aliases"] == ["x"] and '"net"' in kept(engine, running)
    assert f"{endpoint.ipv4}\t{running.config['Hostname']}\n" in hosts(engine, running)
    assert events(engine) == ["connect"]
    kernel.calls.clear()
    disconnect(engine, "net", "web", False)
    assert kernel.calls == ["unplug net", "forget", "withdraw net", "release"]
    assert list(running.networking) == ["inner"] and '"net"' not in kept(engine, running)
    assert endpoint.ipv4 not in hosts(engine, running)
    assert events(engine) == ["connect", "disconnect"]


@pytest.mark.parametrize("step", ["ensure net", "plug", "reserve", "publish net", "lead", "names inner net"])
def test_a_connect_that_fails_leaves_nothing(engine, kernel, running, step):
    before = kept(engine, running), hosts(engine, running)
    kernel.failing = step
    port = "driver failed programming external connectivity on endpoint web: "
    with pytest.raises(SystemFailure) as refused:
        connect(engine, "net", "web", None)
    assert str(refused.value).removeprefix(port if step in ("reserve", "publish net", "lead") else "") == "no"
    assert [each.network for each in engine.networks.endpoints()] == [engine.networks.find("inner").id]
    assert list(running.networking) == ["inner"] and (kept(engine, running), hosts(engine, running)) == before
    assert ("unplug net" in kernel.calls) == (step not in ("ensure net", "plug")) and events(engine) == []
    kernel.failing = ""
    connect(engine, "net", "web", None)


def test_a_port_that_cannot_be_had_any_more_keeps_nobody_in_a_network(engine, kernel, running):
    connect(engine, "net", "web", None)
    connect(engine, "bridge", "web", {"GwPriority": 1})
    assert engine.networks.endpoints(engine.networks.find("bridge").id)[0].ports == (PORT,)
    kernel.failing = "publish net"
    disconnect(engine, "bridge", "web", False)
    assert list(running.networking) == ["inner", "net"]
    assert engine.networks.endpoints(engine.networks.find("net").id)[0].ports == () and kernel.calls[-1] == "release"


def test_the_names_go_with_the_last_endpoint_though_nobody_is_found_there(engine, kernel, running):
    """The resolver serves it on without the network for whose sake it was served."""
    connect(engine, "bridge", "web", None)
    disconnect(engine, "inner", "web", False)
    kernel.calls.clear()
    ending.release(engine, running)
    assert "forget" in kernel.calls
    connect(engine, "bridge", "web", None)
    kernel.calls.clear()
    disconnect(engine, "bridge", "web", False)
    assert "forget" in kernel.calls


def test_a_run_that_ends_meanwhile_takes_all_of_it_along(engine, kernel, running, monkeypatch):
    plug = kernel.plug

    def and_the_end(*arguments):
        made = plug(*arguments)
        running.exits += 1
        return made

    monkeypatch.setattr(kernel, "plug", and_the_end)
    with pytest.raises(Conflict, match="is not running"):
        connect(engine, "net", "web", None)
    assert len(engine.networks.endpoints()) == 1 and list(running.networking) == ["inner"]


def test_a_run_that_has_ended_unheard_cannot_be_connected_and_can_be_disconnected(engine, kernel, running):
    running.state.pid_start += 1  # the number is another process's by now
    with pytest.raises(Conflict, match="is not running"):
        connect(engine, "net", "web", None)
    disconnect(engine, "inner", "web", False)
    assert running.networking == {} and engine.networks.endpoints() == []


def test_a_wire_that_cannot_be_removed_is_still_in_the_record(engine, kernel, running):
    connect(engine, "net", "web", None)
    kernel.failing = "unplug net"
    with pytest.raises(SystemFailure):
        disconnect(engine, "net", "web", False)
    assert "net" in running.networking and '"net"' in kept(engine, running)
    assert len(engine.networks.endpoints()) == 2
    kernel.failing = ""
    disconnect(engine, "net", "web", False)
