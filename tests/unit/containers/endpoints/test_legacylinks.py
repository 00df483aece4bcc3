"""Links: their texts, whom they lead to, and how they are shown."""

import pytest

from engine.daemon.containers.endpoints import legacylinks
from engine.daemon.containers.verbs.create import create
from engine.errors import EngineError, Invalid, NotFound
from tests.unit.containers.fakes import make_engine


@pytest.mark.parametrize(
    ("text", "name", "alias"),
    [("db", "db", "db"), ("db:d", "db", "d"), ("/db:/web/d", "db", "d"), ("0a1b:d", "0a1b", "d")],
)
def test_a_link_has_a_name_and_an_alias(text, name, alias):
    assert legacylinks.parse(text) == (name, alias)


@pytest.mark.parametrize("text", ["", "a:b:c"])
def test_what_is_no_link_is_refused(text):
    with pytest.raises(Invalid):
        legacylinks.parse(text)


@pytest.fixture
def engine(tmp_path):
    """An engine with the containers `db` and `cache`."""
    engine = make_engine(tmp_path)
    for name in ("db", "cache"):
        create(engine, name, {"Image": "busybox"}, None)
    return engine


def linking(engine, *asked, mode="default", name="web"):
    """A container with these links."""
    body = {"Image": "busybox", "HostConfig": {"NetworkMode": mode, "Links": list(asked)}}
    return create(engine, name, body, None)[0]


def test_links_lead_to_containers_whatever_they_are_called_later(engine):
    web = linking(engine, "db:d", "cache", "cache:d")
    db = engine.containers.find("db")
    assert web.host_config["Links"][0] == f"{db.id}:d"
    assert legacylinks.shown(engine, web) == ["/db:/web/d", "/cache:/web/cache"]  # of one alias the first holds
    assert legacylinks.aliases(engine)[db.id] == ["/web/d"]
    engine.containers.take_name(db, "data")
    db.name = "data"
    assert legacylinks.shown(engine, web) == ["/data:/web/d", "/cache:/web/cache"]
    engine.containers.remove(db)
    assert legacylinks.shown(engine, web) == ["/cache:/web/cache"]


def test_a_link_to_one_that_shares_a_network_leads_to_the_one_whose_it_is(engine):
    create(engine, "guest", {"Image": "busybox", "HostConfig": {"NetworkMode": "container:db"}}, None)
    web = linking(engine, "guest:d")
    assert legacylinks.shown(engine, web) == ["/db:/web/d"]


def test_in_a_user_defined_network_links_mean_nothing(engine):
    engine.networks.create({"Name": "net", "IPAM": {"Config": [{"Subnet": "10.1.0.0/24"}]}})
    web = linking(engine, "db:d", mode="net")
    assert web.host_config["Links"] is None and web.networking["net"]["Links"] is None


def test_in_a_user_defined_network_links_are_the_endpoints(engine):
    engine.networks.create({"Name": "net", "IPAM": {"Config": [{"Subnet": "10.1.0.0/24"}]}})
    body = {
        "Image": "busybox",
        "HostConfig": {"NetworkMode": "net"},
        "NetworkingConfig": {"EndpointsConfig": {"net": {"Links": ["db:d"]}}},
    }
    web, _ = create(engine, "web", body, None)
    network = engine.networks.find("net")
    assert legacylinks.of_endpoints(web, [network, engine.networks.find("bridge")]) == {network.id: {"d": "db"}}


@pytest.mark.parametrize("text", ["nosuch", "alone"])
def test_whom_nobody_can_link_to_is_refused(engine, text):
    create(engine, "alone", {"Image": "busybox", "HostConfig": {"NetworkMode": "host"}}, None)
    with pytest.raises(Invalid, match=r"could not get container for nosuch|host type networking"):
        linking(engine, text)
    assert linking(engine).name == "web"  # its name is free again


def test_a_link_is_taken_away_by_its_name(engine):
    web = linking(engine, "db:d", "cache")
    legacylinks.unlink(engine, "/web/d")
    assert legacylinks.shown(engine, web) == ["/cache:/web/cache"]
    with pytest.raises(NotFound, match="No such container: web/d"):
        legacylinks.unlink(engine, "web/d")
    with pytest.raises(EngineError, match="cannot remove the default link name"):
        legacylinks.unlink(engine, "db")
    legacylinks.unlink(engine, "web/cache")
    assert web.host_config["Links"] is None
