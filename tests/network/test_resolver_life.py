"""When the resolver is there: from the first name to the last, with the daemon or without it, killed or not."""

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import SystemFailure
from engine.resolver import service
from engine.resolver.packets import Query
from engine.resolver.zones import View
from engine.wire import exitfile
from engine.wire.channel import Channel
from engine.wire.schema import Place, Serve, Served
from tests.harness import dns
from tests.harness.dns import Asker
from tests.harness.fixtures import World
from tests.harness.namespaces import Namespaces
from tests.network.resolving import BRIDGE, NET, Box, Site, host_config, settled


@pytest.fixture(scope="module")
def machine(world: World) -> Namespaces:
    """The host."""
    return world.machine()


@pytest.fixture(params=["auto"])
def site(world: World, machine: Namespaces, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A host with a spawner of its own; at the end there is no resolver."""
    made = Site(machine, world.directory(), request.param)
    yield made
    made.close()
    assert not (made.exec_root / "resolver.sock").exists()


@pytest.fixture
def box(site: Site) -> Iterator[Callable[..., Box]]:
    """Make containers of these names, which end before the host does."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(Box(name))


def descriptors(pid: int) -> int:
    """How many a process has."""
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("site", ["auto", "python"], indirect=True)
def test_the_resolver_comes_with_the_first_name_and_goes_with_the_last(site: Site, box: Callable[..., Box]) -> None:
    """Predefined networks need none; without a daemon it ends at once when nobody is served."""
    web = box("web")
    site.join(web, web.place(BRIDGE))
    site.names.leave([web.place(BRIDGE)[1]])
    assert site.pids() == []
    site.join(web)
    (pid,) = site.pids()
    with open(f"/proc/{pid}/status") as status:
        assert "Threads:\t1\n" in status.read()
    with Asker(web) as asker:
        assert asker.addresses("web") == ["10.0.0.2"]
        site.leave_link()
        assert asker.addresses("web") == ["10.0.0.2"], "it goes on without a daemon"
    web.end()
    assert settled(lambda: not site.pids())


def test_a_container_that_ends_is_forgotten_and_its_network_let_go_with_nobody_to_say_so(
    site: Site, box: Callable[..., Box]
) -> None:
    """Its sockets would hold the network, and the wires in it, for ever."""
    web, db = box("web"), box("db")
    site.join(web)
    (pid,) = site.pids()
    before = descriptors(pid)
    site.join(db, db.place(last=3))
    site.leave_link()
    with Asker(web) as asker:
        assert asker.addresses("db") == ["10.0.0.3"]
        db.end()
        assert settled(lambda: asker.ask("db").code == dns.SERVFAIL)
    assert settled(lambda: descriptors(pid) == before - 1), "but for the link"


def test_a_new_daemon_finds_it_again_and_both_know_the_same(site: Site, box: Callable[..., Box]) -> None:
    """Those that run are told again without a gap; those that the daemon does not know are served no more."""
    web, db, gone = box("web"), box("db"), box("gone")
    for number, each in enumerate((web, db, gone)):
        site.join(each, each.place(last=number + 2))
    pids = site.pids()
    site.restart()
    with Asker(web) as asker:
        assert asker.addresses("db") == ["10.0.0.3"]
        adopted = [((db.place(NET, "new", last=3),), db.pid, db.start, host_config(), {})]
        adopted += [((web.place(),), web.pid, web.start, host_config(), {})]
        site.names.adopt(adopted)
        assert asker.addresses("new") == ["10.0.0.3"]
        assert asker.ask("gone").code == dns.SERVFAIL
        assert site.pids() == pids
        site.join(gone, gone.place(last=9))
        assert asker.addresses("gone") == ["10.0.0.9"]


def test_a_new_daemon_makes_another_when_the_old_one_is_dead(site: Site, box: Callable[..., Box]) -> None:
    """Both were killed: the containers that run are served again, in the networks that they have."""
    web, db = box("web"), box("db")
    site.join(web)
    site.join(db, db.place(last=3))
    site.leave_link()
    site.kill()
    assert settled(lambda: not site.pids())
    site.restart()
    site.names.adopt(
        [((each.place(last=n),), each.pid, each.start, host_config(), {}) for each, n in ((web, 2), (db, 3))]
    )
    with Asker(web) as asker, Asker(db) as other:
        assert asker.addresses("db") == ["10.0.0.3"]
        assert other.addresses("web") == ["10.0.0.2"]


def test_one_that_is_killed_is_started_anew_and_told_everything(site: Site, box: Callable[..., Box]) -> None:
    """By the daemon, as soon as it hears the end, before anybody asks for anything."""
    web, db = box("web"), box("db")
    site.join(web)
    site.join(db, db.place(last=3))
    (pid,) = site.pids()
    site.kill()
    assert settled(lambda: site.pids() not in ([], [pid]))

    def found() -> bool:
        with Asker(web, timeout=0.3) as asker:
            try:
                return asker.ask("db").records == ["10.0.0.3"]
            except OSError:
                return False

    assert settled(found)
    site.names.leave([web.place()[1], db.place()[1]])


def test_one_that_does_not_answer_is_killed_and_replaced(site: Site, box: Callable[..., Box]) -> None:
    """A start of a container waits for it, but not for ever."""
    web, db = box("web"), box("db")
    site.join(web)
    (pid,) = site.pids()
    site.patience(0.3)
    os.kill(pid, signal.SIGSTOP)
    site.join(db, db.place(last=3))
    assert settled(lambda: pid not in site.pids())
    with Asker(web) as asker, Asker(db) as other:
        assert asker.addresses("db") == ["10.0.0.3"]
        assert other.addresses("web") == ["10.0.0.2"]


def test_a_container_that_has_ended_already_cannot_be_served(site: Site, box: Callable[..., Box]) -> None:
    """And the others' names stay as they were."""
    web, db = box("web"), box("db")
    site.join(web)
    db.end()
    with pytest.raises((SystemFailure, FileNotFoundError)):
        site.join(db)
    with Asker(web) as asker:
        assert asker.ask("db").code == dns.SERVFAIL
        assert asker.addresses("web") == ["10.0.0.2"]


def test_more_containers_than_there_are_descriptors_for_are_refused_in_words(
    site: Site, box: Callable[..., Box]
) -> None:
    """And nothing of those that are served is lost."""
    resource.prlimit(site.spawner, resource.RLIMIT_NOFILE, (24, 24))
    web, db, more = box("web"), box("db"), box("more")
    site.join(web)
    site.join(db, db.place(last=3))
    with pytest.raises(SystemFailure, match="open files"):
        site.join(more)
    with Asker(web) as asker:
        assert asker.addresses("db") == ["10.0.0.3"]
    site.names.leave([db.place()[1]])
    site.join(more, more.place(last=4))
    with Asker(web) as asker:
        assert asker.addresses("more") == ["10.0.0.4"]


def test_a_failure_that_nobody_has_foreseen_costs_one_answer_until_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One container's packet must not end the names of all; what went wrong is left for the daemon to log."""
    monkeypatch.setattr(service, "_MOST_FAILURES", 3)
    records = View.records

    def failing(view: View, query: Query) -> list[bytes] | None:
        if query.name == b"\4boom\0":
            raise ZeroDivisionError
        return records(view, query)

    monkeypatch.setattr(View, "records", failing)
    daemon, theirs = Channel.pair()
    made: list[service.Resolver] = []
    ended: list[BaseException] = []

    def run() -> None:
        try:
            made.append(service.Resolver(str(tmp_path), theirs))
            made[0].run()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    with daemon, Box("web") as box:
        assert daemon.receive()[0].serves == ()
        network, pidfd = os.open(f"/proc/{box.pid}/ns/net", os.O_RDONLY), os.pidfd_open(box.pid)
        daemon.send(Serve(box.id, box.start, (Place("n", "net", ("web",), ("10.0.0.2",)),)), [network, pidfd])
        assert daemon.receive()[0] == Served()
        os.close(network)
        os.close(pidfd)
        with Asker(box) as asker:
            for _ in range(3):
                asker.socket.send(dns.query("boom", number=9))
                assert asker.addresses("web") == ["10.0.0.2"]
            assert "ZeroDivisionError" in (tmp_path / exitfile.RESOLVER_CRASH).read_text()
            asker.socket.send(dns.query("boom"))
            thread.join(60.0)
    assert [type(error) for error in ended] == [ZeroDivisionError]
    for _, served in made[0]._served.values():
        served.close()


def test_a_run_that_follows_another_takes_its_place(site: Site, box: Callable[..., Box]) -> None:
    """A container that is started again has a new network, and sockets there."""
    web, db, again = box("web"), box("db"), box("web")
    site.join(web)
    site.join(db, db.place(last=3))
    site.join(again, again.place(last=4))
    web.end()
    with Asker(db) as asker, Asker(again) as other:
        assert asker.addresses("web") == ["10.0.0.4"]
        assert other.addresses("db") == ["10.0.0.3"]
