"""engine.daemon.api.versions: which versions are spoken, and what the older ones see otherwise."""

import pytest

from engine.daemon.api import versions
from engine.errors import Invalid


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


def test_the_texts_are_the_numbers():
    assert f"{versions.NEWEST[0]}.{versions.NEWEST[1]}" == versions.NEWEST_TEXT
    assert f"{versions.OLDEST[0]}.{versions.OLDEST[1]}" == versions.OLDEST_TEXT


def test_an_image_had_a_virtual_size_until_1_43():
    shown = {"Size": 5}
    assert versions.image((1, 43), shown) == {"Size": 5, "VirtualSize": 5}
    assert versions.image((1, 44), shown) == shown
    assert shown == {"Size": 5}


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


def test_the_python_sdk_is_told_of_a_driver_that_it_can_read():
    """Only of the default, which nobody asked for; every other client sees what is there."""
    shown = {"Id": "1", "HostConfig": {"LogConfig": {"Type": "local", "Config": {"max-file": "2"}}, "Memory": 1}}
    journald = {"HostConfig": {"LogConfig": {"Type": "journald", "Config": {}}}}
    sdk, cli = "docker-sdk-python/7.1.0", "Docker-Client/28.5.1 (linux)"
    assert versions.container(sdk, shown, log_asked=False) == {
        "Id": "1",
        "HostConfig": {"LogConfig": {"Type": "json-file", "Config": {"max-file": "2"}}, "Memory": 1},
    }
    for same in ((cli, shown, False), (sdk, shown, True), ("", shown, False), (sdk, journald, False)):
        assert versions.container(*same) is same[1]
    assert shown["HostConfig"]["LogConfig"]["Type"] == "local"
