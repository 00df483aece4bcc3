"""The docker SDK for Python: volumes, what the engine says of itself, events, and what it is not."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

docker = pytest.importorskip("docker", reason="needs the docker SDK: pip install docker")


@pytest.fixture
def volume(sdk) -> Iterator[Callable]:
    """Make volumes that are removed after the test, each with a name of its own: `volume(labels={"a": "b"})`."""
    made = []

    def create(**named):
        made.append(sdk.volumes.create(f"sdk-{uuid.uuid4().hex[:12]}", **named))
        return made[-1]

    yield create
    for one in made:
        with contextlib.suppress(docker.errors.NotFound):  # the test removed it
            one.remove(force=True)


def test_a_volume_is_made_found_used_and_removed(sdk, volume):
    value = uuid.uuid4().hex
    made = volume(labels={"sdk": value})
    assert (made.attrs["Driver"], made.attrs["Scope"], made.attrs["Labels"]) == ("local", "local", {"sdk": value})
    assert [one.name for one in sdk.volumes.list(filters={"label": f"sdk={value}"})] == [made.name]
    write = {made.name: {"bind": "/v", "mode": "rw"}}
    sdk.containers.run("busybox", ["sh", "-c", "echo kept > /v/file"], volumes=write, remove=True, network_mode="none")
    mounts = [docker.types.Mount("/v", made.name, read_only=True)]
    said = sdk.containers.run("busybox", ["cat", "/v/file"], mounts=mounts, remove=True, network_mode="none")
    assert said == b"kept\n"
    made.remove()
    with pytest.raises(docker.errors.NotFound, match=f"get {made.name}: no such volume"):
        sdk.volumes.get(made.name)


def test_a_volume_with_options_is_mounted_so(sdk, volume):
    made = volume(driver="local", driver_opts={"type": "tmpfs", "device": "tmpfs", "o": "size=1m,uid=7"})
    bind = {made.name: {"bind": "/v"}}
    said = sdk.containers.run("busybox", ["stat", "-c", "%u", "/v"], volumes=bind, remove=True, network_mode="none")
    assert said == b"7\n"


def test_a_volume_in_use_is_not_removed_and_only_unused_ones_are_pruned(sdk, volume):
    value = uuid.uuid4().hex
    used, unused = volume(labels={"sdk": value}), volume(labels={"sdk": value})
    container = sdk.containers.create("busybox", "true", volumes={used.name: {"bind": "/v"}}, network_mode="none")
    try:
        with pytest.raises(docker.errors.APIError, match="volume is in use") as caught:
            used.remove()
        assert caught.value.status_code == 409
        assert sdk.volumes.prune({"label": [f"sdk={value}"], "all": ["1"]})["VolumesDeleted"] == [unused.name]
    finally:
        container.remove()


def test_the_anonymous_volumes_of_a_container_go_with_it(sdk):
    container = sdk.containers.create("busybox", "true", volumes=["/v"], network_mode="none")
    (mount,) = container.attrs["Mounts"]
    assert sdk.volumes.get(mount["Name"]).name == mount["Name"]
    container.remove(v=True)
    with pytest.raises(docker.errors.NotFound):
        sdk.volumes.get(mount["Name"])


def test_the_engine_says_what_it_is_and_what_it_holds(sdk, volume):
    made = volume()
    info, version, used = sdk.info(), sdk.version(), sdk.df()
    assert info["Swarm"]["LocalNodeState"] == "inactive"
    assert {"bridge", "host", "null", "macvlan", "ipvlan"} <= set(info["Plugins"]["Network"])
    assert info["ServerVersion"] == version["Version"]
    assert {"Engine"} <= {one["Name"] for one in version["Components"]}
    assert used["LayersSize"] > 0
    assert made.name in {one["Name"] for one in used["Volumes"]}
    busybox = next(one for one in used["Images"] if "busybox:latest" in (one["RepoTags"] or ()))
    assert busybox["Size"] > 1_000_000
    assert sdk.plugins.list() == []


def test_events_are_heard_while_they_happen_and_read_afterwards(sdk):
    since = int(time.time())
    name = f"sdk-{uuid.uuid4().hex[:12]}"
    live = sdk.events(decode=True, filters={"type": ["network", "volume"]})
    heard = []

    def listen() -> None:
        for event in live:
            if name in (event["Actor"]["Attributes"].get("name"), event["Actor"]["ID"]):
                heard.append((event["Type"], event["Action"]))
            if len(heard) == 4:
                return

    listener = threading.Thread(target=listen)
    listener.start()
    sdk.networks.create(name).remove()
    sdk.volumes.create(name).remove()
    listener.join(60)
    live.close()
    expected = [("network", "create"), ("network", "destroy"), ("volume", "create"), ("volume", "destroy")]
    assert heard == expected
    kept = sdk.events(since=since, until=int(time.time()) + 1, filters={"type": ["network", "volume"]}, decode=True)
    names = [
        (event["Type"], event["Action"])
        for event in kept
        if name in (event["Actor"]["Attributes"].get("name"), event["Actor"]["ID"])
    ]
    assert names == expected


@pytest.mark.parametrize("noun", ["nodes", "services", "secrets", "configs"])
def test_what_only_a_swarm_has_is_refused_as_docker_does(sdk, noun):
    with pytest.raises(docker.errors.APIError, match="This node is not a swarm manager") as caught:
        getattr(sdk, noun).list()
    assert caught.value.status_code == 503
