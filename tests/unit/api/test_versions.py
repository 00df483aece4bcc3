"""engine.daemon.api.versions: which versions are spoken, and what the older ones see otherwise."""

import pytest

from engine.daemon.api import versions
from engine.daemon.api.routes import ROUTES
from engine.errors import Invalid
from engine.settings import advertised


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("/v1.54/info", ("1.54", "/info")),
        ("/info", ("", "/info")),
        ("/v1.54", ("", "/v1.54")),
        ("/v1/info", ("", "/v1/info")),
        ("/v1.2.3/info", ("", "/v1.2.3/info")),
        ("/version", ("", "/version")),
        ("/v1.24/v1.24/info", ("1.24", "/v1.24/info")),
    ],
)
def test_a_version_is_taken_off_a_path(path, split):
    assert versions.split_version(path) == split


def test_every_version_from_the_oldest_to_the_newest_is_spoken():
    for minor in range(24, 55):
        versions.check_version(f"1.{minor}", versions.parse_version(f"1.{minor}"))
    assert versions.parse_version("") == versions.NEWEST
    for text in ("1.23", "0.99", "1.55", "2.0", "1.540", "99999.0"):
        with pytest.raises(Invalid, match=f"client version {text} is too"):
            versions.check_version(text, versions.parse_version(text))


@pytest.fixture
def declared():
    """Puts back what other tests' daemons say."""
    yield
    versions.declare(False, versions.OLDEST_TEXT, advertised.REPORTED_VERSION)


def test_a_daemon_may_speak_no_old_version_and_say_that_it_is_experimental(declared):
    assert "Docker-Experimental: false\r\n" in versions.identity()
    versions.declare(True, "1.40", "7.0")
    assert "Server: Docker/7.0 (linux)\r\n" in versions.identity()
    assert "Docker-Experimental: true\r\n" in versions.identity()
    versions.check_version("1.40", (1, 40))
    with pytest.raises(Invalid, match=r"client version 1\.39 is too old. Minimum supported API version is 1\.40, "):
        versions.check_version("1.39", (1, 39))


def test_what_a_container_says_is_of_a_type_of_its_own_since_1_42():
    assert versions.stream_type((1, 41), terminal=False) == "application/vnd.docker.raw-stream"
    assert versions.stream_type((1, 42), terminal=False) == "application/vnd.docker.multiplexed-stream"
    assert versions.stream_type((1, 42), terminal=True) == "application/vnd.docker.raw-stream"


def test_the_limit_of_processes_is_not_updated_before_1_40():
    asked = {"PidsLimit": 5, "Memory": 1}
    assert versions.updated((1, 39), asked) == {"Memory": 1}
    assert versions.updated((1, 40), asked) == asked


def test_the_texts_are_the_numbers():
    assert f"{versions.NEWEST[0]}.{versions.NEWEST[1]}" == versions.NEWEST_TEXT
    assert f"{versions.OLDEST[0]}.{versions.OLDEST[1]}" == versions.OLDEST_TEXT


def test_compose_1_is_told_the_version_that_it_was_written_for():
    assert versions.newest_for("docker-compose/1.29.2 docker-py/5.0.3 Linux/6.1.0") == "1.41"
    others = ("", "Docker-Client/28.2.2 (linux)", "compose/v2.40.3", "docker-compose/2.40.3", "docker-sdk-python/7.1.0")
    assert {versions.newest_for(agent) for agent in others} == {versions.NEWEST_TEXT}


def test_a_container_of_a_list_came_to_have_more_fields():
    def shown() -> dict:
        return {"Id": "x", "HostConfig": {"Annotations": {}}, "Health": {}, "ImageManifestDescriptor": {}}

    assert versions.listed_container((1, 52), shown()) == shown()
    seen = {version: versions.listed_container(version, shown()) for version in ((1, 51), (1, 47), (1, 45))}
    assert {"Health", "ImageManifestDescriptor"} - seen[1, 51].keys() == {"Health"}
    assert {"Health", "ImageManifestDescriptor"} - seen[1, 47].keys() == {"Health", "ImageManifestDescriptor"}
    assert [each["HostConfig"] for each in seen.values()] == [{"Annotations": {}}, {"Annotations": {}}, {}]
    assert "ImageManifestDescriptor" not in versions.listed_container((1, 24), {"HostConfig": {}, "Health": {}})


def test_an_image_of_a_list_was_shown_otherwise():
    shown = {"Size": 5, "Containers": 1, "RepoTags": [], "RepoDigests": [], "Descriptor": {}}
    assert versions.image((1, 51), shown) == shown == versions.image((1, 54), shown)
    older = {"Size": 5, "Containers": -1, "RepoTags": [], "RepoDigests": []}
    assert versions.image((1, 50), shown) == {**shown, "Containers": -1}
    assert versions.image((1, 47), shown) == older
    oldest = versions.image((1, 42), shown)
    assert oldest == {**older, "VirtualSize": 5, "RepoTags": ["<none>:<none>"], "RepoDigests": ["<none>@<none>"]}
    assert shown["Containers"] == 1


def test_what_is_empty_of_an_inspected_image_was_shown():
    shown = {"Size": 5, "Descriptor": {}, "Identity": {}}
    assert versions.image((1, 54), shown) == shown
    older = versions.image((1, 51), shown)
    assert (older["Parent"], older["Comment"], older["GraphDriver"]["Data"]) == ("", "", None)
    assert "Identity" not in older and "Created" not in older
    assert versions.image((1, 43), shown)["Created"] == "0001-01-01T00:00:00Z"


def test_an_inspected_image_had_the_container_that_it_was_made_from_until_1_44():
    shown = {"Size": 5, "Config": {"Volumes": {"/v": {}}, "Cmd": ["sh"]}}
    assert "ContainerConfig" not in versions.image((1, 45), shown)
    older = versions.image((1, 44), shown)
    assert older["Container"] == ""
    config = older["ContainerConfig"]
    assert (config["Volumes"], config["Cmd"], config["Env"], config["Hostname"]) == ({"/v": {}}, ["sh"], None, "")


def test_the_parameter_filter_was_a_reference_until_1_40():
    assert versions.image_filters((1, 40), {"reference": ("a",)}, "b") == {"reference": ("a", "b")}
    assert versions.image_filters((1, 40), {}, "") == {}
    assert versions.image_filters((1, 41), {}, "b") == {}


EVENT = {"Type": "container", "Action": "start", "Actor": {"ID": "c", "Attributes": {"image": "i", "name": "n"}}}


def test_events_of_containers_and_images_were_told_twice_until_1_51():
    assert versions.event((1, 52), EVENT) == EVENT
    older = versions.event((1, 51), EVENT)
    assert older == {"status": "start", "id": "c", "from": "i", **EVENT}
    assert list(older)[:3] == ["status", "id", "from"]
    image = {"Type": "image", "Action": "tag", "Actor": {"ID": "i", "Attributes": {"name": "n"}}}
    assert versions.event((1, 24), image) == {"status": "tag", "id": "i", **image}
    network = {"Type": "network", "Action": "create", "Actor": {"ID": "x", "Attributes": {}}}
    assert versions.event((1, 24), network) == network


def test_two_versions_of_one_form_show_events_alike():
    for version in ((1, minor) for minor in range(24, 55)):
        same = (1, 24) if versions.event_form(version) == versions.event_form((1, 24)) else versions.NEWEST
        assert versions.event(version, EVENT) == versions.event(same, EVENT)


def test_an_image_s_create_is_not_told_before_1_46():
    assert not versions.knows_event((1, 45), "image", "create")
    assert versions.knows_event((1, 46), "image", "create")
    assert versions.knows_event((1, 24), "image", "tag")
    assert versions.knows_event((1, 24), "container", "create")


def test_lines_have_their_own_type_since_1_53():
    assert versions.event_types((1, 52))[0] == "application/json"
    assert versions.event_types((1, 53))[0] == "application/jsonl"


def test_a_container_had_a_graph_driver_and_addresses_of_its_own_until_1_51():
    """Storage took the first one's place, and the addresses are each network's."""
    networks = {"bridge": {"IPAddress": "172.17.0.2", "Gateway": "172.17.0.1", "IPPrefixLen": 16, "Aliases": None}}
    shown = {
        "Config": {"Image": "x"},
        "Driver": "overlayfs",
        "Storage": {"RootFS": {"Snapshot": {"Name": "overlayfs"}}},
        "HostConfig": {"LogConfig": {"Type": "json-file"}},
        "NetworkSettings": {"Ports": {}, "Networks": networks},
    }
    mac = "02:00:00:00:00:01"
    assert versions.container((1, 52), shown, mac) == shown
    older = versions.container((1, 51), shown, mac)
    assert "Storage" not in older and older["GraphDriver"] == {"Name": "overlayfs", "Data": None}
    assert older["Config"] == {"Image": "x", "MacAddress": mac}
    assert versions.container((1, 51), shown)["Config"] == {"Image": "x"}
    settings = older["NetworkSettings"]
    assert settings["Networks"] == networks and settings["Ports"] == {}
    assert (settings["IPAddress"], settings["Gateway"], settings["IPPrefixLen"]) == ("172.17.0.2", "172.17.0.1", 16)
    assert (settings["MacAddress"], settings["GlobalIPv6PrefixLen"], settings["HairpinMode"]) == ("", 0, False)
    assert "Aliases" not in settings and settings["SecondaryIPAddresses"] is None
    assert "Storage" in shown and "MacAddress" not in shown["Config"], "the answer itself is left as it is"


def test_a_container_names_the_manifest_of_its_image_since_1_48():
    shown = {
        "Driver": "overlayfs",
        "ImageManifestDescriptor": {"size": 1},
        "HostConfig": {"LogConfig": {"Type": "json-file"}},
        "NetworkSettings": {"Networks": {}},
    }
    assert versions.container((1, 48), shown)["ImageManifestDescriptor"] == {"size": 1}
    assert "ImageManifestDescriptor" not in versions.container((1, 47), shown)


def test_a_container_s_short_id_was_one_of_its_aliases_until_1_44():
    networks = {"bridge": {"Aliases": None}, "net": {"Aliases": ["web"]}}
    shown = {
        "Id": "0123456789abcdef",
        "Driver": "overlayfs",
        "Config": {"Hostname": "0123456789ab"},
        "HostConfig": {"LogConfig": {"Type": "none", "Config": {}}},
        "NetworkSettings": {"Networks": networks},
    }
    found = versions.container((1, 44), shown)["NetworkSettings"]["Networks"]
    assert found == {"bridge": {"Aliases": None}, "net": {"Aliases": ["web", "0123456789ab"]}}
    assert versions.container((1, 45), shown)["NetworkSettings"]["Networks"] == networks
    for status, aliases in (("created", ["web"]), ("running", ["web", "0123456789ab"])):
        older = versions.container((1, 43), {**shown, "State": {"Status": status}})
        assert older["NetworkSettings"]["Networks"]["net"]["Aliases"] == aliases
    assert networks["net"]["Aliases"] == ["web"]


@pytest.mark.parametrize("route", [f"{route.method} {route.pattern}" for route in ROUTES])
def test_a_parameter_is_taken_from_the_versions_that_did_not_have_it(route: str) -> None:
    """Each route of the table exists, the newest version has all of its parameters, and the oldest has none of them."""
    assert versions.unknown_parameters(versions.NEWEST, route) == []
    assert versions.unknown_parameters(versions.OLDEST, route) == [*versions._PARAMETERS.get(route, {})]
    assert versions._PARAMETERS.keys() <= {f"{route.method} {route.pattern}" for route in ROUTES}
