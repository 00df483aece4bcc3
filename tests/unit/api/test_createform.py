"""engine.daemon.api.createform: what older clients could ask of a new container, and what they could not."""

import pytest

from engine.daemon.api import createform
from engine.errors import Invalid

NEWEST = (1, 54)


@pytest.mark.parametrize(
    ("version", "cgroups", "asked", "expected"),
    [
        ((1, 39), "1", {}, {"IpcMode": "shareable", "CgroupnsMode": "host"}),
        ((1, 40), "1", {}, {"CgroupnsMode": "host"}),
        ((1, 41), "1", {}, {}),
        ((1, 39), "2", {}, {"IpcMode": "shareable"}),
        (
            (1, 24),
            "1",
            {"IpcMode": "private", "CgroupnsMode": "private"},
            {"IpcMode": "private", "CgroupnsMode": "private"},
        ),
        ((1, 24), "2", {"IpcMode": "", "Memory": 9}, {"IpcMode": "shareable", "Memory": 9}),
    ],
)
def test_containers_of_older_clients_share_what_they_did(version, cgroups, asked, expected):
    """The IPC namespace could be joined until 1.39 by default, and the cgroup namespace of a v1 host was its own."""
    body = {"Image": "x", "HostConfig": asked}
    assert createform.created(version, body, cgroups)[0] == {"Image": "x", "HostConfig": expected}
    assert createform.created((1, 24), {"Image": "x"}, "2")[0] == {"Image": "x", "HostConfig": {"IpcMode": "shareable"}}


def asked(version, body):
    """The networks that an older client's create comes to."""
    return (createform.created(version, body, "2")[0].get("NetworkingConfig") or {}).get("EndpointsConfig")


def test_a_container_was_created_in_one_network_until_1_43():
    two = {"NetworkingConfig": {"EndpointsConfig": {"b": {}, "a": {}}}}
    assert asked((1, 44), two) == {"b": {}, "a": {}}
    with pytest.raises(Invalid, match=r"^Container cannot be created with multiple network endpoints: a, b$"):
        asked((1, 43), two)
    one = {"NetworkingConfig": {"EndpointsConfig": {"a": {"MacAddress": "02:42:ac:11:00:02", "Aliases": ["x"]}}}}
    assert asked((1, 43), one) == {"a": {"MacAddress": None, "Aliases": ["x"]}}  # nobody could ask for it there
    assert asked((1, 43), {"NetworkingConfig": {"EndpointsConfig": {"a": None}}}) == {"a": None}


def test_the_mac_of_a_container_is_that_of_its_network():
    mac = "02:42:ac:11:00:02"
    body = {"MacAddress": mac, "HostConfig": {"NetworkMode": "net"}}
    for version in ((1, 24), (1, 43), (1, 44), (1, 51)):
        assert asked(version, body) == {"net": {"MacAddress": mac}}
        assert asked(version, {"MacAddress": mac}) == {"bridge": {"MacAddress": mac}}
        assert asked(version, {"MacAddress": "x", "HostConfig": {"NetworkMode": "host"}}) is None
    assert asked((1, 52), body) is None  # the API has no such field any more
    settings = {"NetworkingConfig": {"EndpointsConfig": {"net": {"Aliases": ["x"]}, "other": {}}}}
    assert asked((1, 44), {**body, **settings}) == {"net": {"Aliases": ["x"], "MacAddress": mac}, "other": {}}
    for mode in ("host", "none", "container:x"):
        lone = {"MacAddress": mac, "HostConfig": {"NetworkMode": mode}}
        assert asked((1, 44), lone) is None and "now deprecated" in createform.created((1, 44), lone, "2")[1][0]
        with pytest.raises(Invalid, match="mac-address and the network mode"):
            asked((1, 43), {"MacAddress": mac, "HostConfig": {"NetworkMode": mode}})
    other = {"NetworkingConfig": {"EndpointsConfig": {"net": {"MacAddress": "02:42:ac:11:00:03"}}}}
    with pytest.raises(Invalid, match="must match the endpoint-specific MAC address"):
        asked((1, 44), {**body, **other})
    elsewhere = {**body, "NetworkingConfig": {"EndpointsConfig": {"other": {}}}}
    assert asked((1, 43), elsewhere) == {"other": {"MacAddress": mac}}
    with pytest.raises(Invalid, match=r"^unable to migrate .*: HostConfig.NetworkMode must match the identity"):
        asked((1, 44), elsewhere)


MOUNT = {"Type": "bind", "Source": "/a", "Target": "/b"}


@pytest.mark.parametrize(
    ("since", "body", "older"),
    [
        ((1, 40), {"BindOptions": {"NonRecursive": True}}, {"BindOptions": {}}),
        ((1, 42), {"BindOptions": {"CreateMountpoint": True}}, {"BindOptions": {}}),
        ((1, 42), {"ConsoleSize": [1, 2]}, {}),
        ((1, 43), {"Annotations": {"a": "b"}}, {}),
        ((1, 44), {"Healthcheck": {"StartInterval": 5, "Retries": 1}}, {"Healthcheck": {"Retries": 1}}),
        ((1, 48), {"GwPriority": 5}, {}),
    ],
)
def test_what_a_version_did_not_have_is_left_out(since: tuple[int, int], body: dict, older: dict) -> None:
    def whole(fields: dict) -> dict:
        if "BindOptions" in body:
            return {"HostConfig": {"IpcMode": "private", "Mounts": [{**MOUNT, **fields}]}}
        if "GwPriority" in body:
            return {"HostConfig": {"IpcMode": "private"}, "NetworkingConfig": {"EndpointsConfig": {"net": fields}}}
        return fields if "Healthcheck" in body else {"HostConfig": {"IpcMode": "private", **fields}}

    kept = createform.created(since, whole(body), "2")[0]
    left = createform.created((since[0], since[1] - 1), whole(body), "2")[0]
    assert kept == whole(body)
    for each in (left.get("NetworkingConfig") or {}).get("EndpointsConfig", {}).values():
        each.pop("MacAddress", None)
    assert left == whole(older)


@pytest.mark.parametrize(
    ("since", "mount", "words"),
    [
        ((1, 44), {"BindOptions": {"ReadOnlyForceRecursive": True}}, "BindOptions.ReadOnlyForceRecursive"),
        ((1, 45), {"Type": "volume", "VolumeOptions": {"Subpath": "x"}}, "VolumeOptions.Subpath"),
        ((1, 48), {"Type": "image"}, 'Mount type "Image"'),
    ],
)
def test_a_mount_that_a_version_did_not_have_is_refused(since: tuple[int, int], mount: dict, words: str) -> None:
    body = {"HostConfig": {"Mounts": [{**MOUNT, **mount}]}}
    assert createform.created(since, body, "2")[0]["HostConfig"]["Mounts"] == body["HostConfig"]["Mounts"]
    with pytest.raises(Invalid) as refused:
        createform.created((since[0], since[1] - 1), body, "2")
    assert str(refused.value) == f"{words} needs API v{since[0]}.{since[1]} or newer"


@pytest.mark.parametrize("options", ["VolumeOptions", "TmpfsOptions"])
def test_options_of_another_type_are_refused_since_1_42(options: str) -> None:
    body = {"HostConfig": {"Mounts": [{**MOUNT, options: {}}]}}
    assert createform.created((1, 41), body, "2")
    with pytest.raises(Invalid) as refused:
        createform.created((1, 42), body, "2")
    assert str(refused.value) == f'{options} must not be specified on mount type "bind"'


def test_a_driver_that_no_mount_obeys_is_told_since_1_48() -> None:
    def told(version: tuple[int, int], **mount: object) -> list[str]:
        body = {"HostConfig": {"VolumeDriver": "x", "Mounts": [{"Type": "volume", "Target": "/a", **mount}]}}
        return createform.created(version, body, "2")[1]

    assert "volume-driver configuration is ignored" in told((1, 48))[0]
    assert (
        told((1, 47)) == told(NEWEST, VolumeOptions={"DriverConfig": {"Name": "y"}}) == told(NEWEST, Type="tmpfs") == []
    )
