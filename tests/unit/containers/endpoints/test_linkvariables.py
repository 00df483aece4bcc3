"""The variables that links once set: their names, and that a daemon has to be asked for them."""

import pytest

from engine.daemon.containers.endpoints import linkvariables
from engine.daemon.containers.verbs.create import create
from tests.unit.containers.fakes import make_engine


def test_a_link_tells_of_ports_of_the_name_and_of_the_others_variables():
    found = linkvariables.of_link(
        "/web/my-db",
        "172.17.0.5",
        [(53, "udp"), (8002, "tcp"), (80, "tcp"), (8001, "tcp"), (8000, "tcp")],
        ["USER=me", "PATH=/bin", "HOME=/root", "ALONE"],
    )
    assert found[0] == "MY_DB_PORT=tcp://172.17.0.5:80"
    assert found[-2:] == ["MY_DB_NAME=/web/my-db", "MY_DB_ENV_USER=me"]
    whole = dict(each.split("=", 1) for each in found)
    assert len(whole) == len(found) == 1 + 5 * 4 + 4 + 2
    assert whole["MY_DB_PORT_53_UDP"] == "udp://172.17.0.5:53"
    assert [whole[f"MY_DB_PORT_80_TCP{part}"] for part in ("", "_ADDR", "_PORT", "_PROTO")] == [
        "tcp://172.17.0.5:80",
        "172.17.0.5",
        "80",
        "tcp",
    ]
    ends = {part: whole[f"MY_DB_PORT_8000_TCP_{part}"] for part in ("START", "PORT_START", "END", "PORT_END")}
    assert ends == {
        "START": "tcp://172.17.0.5:8000",
        "PORT_START": "8000",
        "END": "tcp://172.17.0.5:8002",
        "PORT_END": "8002",
    }


def test_a_container_without_ports_is_told_by_its_name():
    assert linkvariables.of_link("/web/db", "172.17.0.5", [], []) == ["DB_NAME=/web/db"]


@pytest.mark.parametrize("value", [None, "", "0", "true"])
def test_nothing_is_set_unless_the_daemon_is_asked(tmp_path, monkeypatch, value):
    monkeypatch.delenv(linkvariables.ASKED, raising=False)
    if value is not None:
        monkeypatch.setenv(linkvariables.ASKED, value)
    engine = make_engine(tmp_path)
    create(engine, "db", {"Image": "busybox"}, None)
    web, _ = create(engine, "web", {"Image": "busybox", "HostConfig": {"Links": ["db"]}}, None)
    assert linkvariables.variables(engine, web) == ()
