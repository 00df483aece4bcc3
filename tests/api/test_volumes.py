"""The volume endpoints, with dockerd's statuses and texts."""

import json
import os
import shutil
import threading
import uuid
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon


def named(prefix: str = "v") -> str:
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def make(daemon: Daemon, name: str, **body: object) -> dict:
    """A volume, as create answers."""
    answer = daemon.request("POST", "/volumes/create", {"Name": name, **body})
    assert answer.status == 201, answer
    return answer.json()


def names(daemon: Daemon, **filters: list[str]) -> set[str]:
    """The names of the volumes that pass the filters."""
    answer = daemon.request("GET", f"/volumes?filters={quote(json.dumps(filters))}")
    assert answer.status == 200, answer
    return {volume["Name"] for volume in answer.json()["Volumes"]}


@pytest.fixture
def volume(daemon):
    """A volume with a label."""
    name = named()
    make(daemon, name, Labels={"a": "b"})
    yield name
    daemon.request("DELETE", f"/volumes/{name}?force=1")


def test_a_volume_is_shown_as_docker_shows_it(daemon, volume):
    shown = daemon.request("GET", f"/volumes/{volume}").json()
    made = shown.pop("CreatedAt")
    assert shown == {
        "Driver": "local",
        "Labels": {"a": "b"},
        "Mountpoint": f"{daemon.data_root}/volumes/{volume}/_data",
        "Name": volume,
        "Options": None,
        "Scope": "local",
    }
    assert made.endswith("Z") and len(made) == len("2026-11-20T05:38:54Z")
    assert os.stat(shown["Mountpoint"]).st_mode & 0o7777 == 0o755


def test_the_same_name_again_is_the_same_volume(daemon, volume):
    assert make(daemon, volume) == daemon.request("GET", f"/volumes/{volume}").json()


def test_a_volume_without_a_name_gets_one_and_a_label(daemon):
    shown = daemon.request("POST", "/volumes/create", {}).json()
    assert len(shown["Name"]) == 64 and shown["Labels"] == {"com.docker.volume.anonymous": ""}
    assert daemon.request("DELETE", f"/volumes/{shown['Name']}").status == 204


@pytest.mark.parametrize("written", ["data", "../data", "/../data/."])
def test_the_path_of_an_anonymous_volume_begins_at_the_root(daemon, container, written):
    """As `VOLUME data` has it: such a container did not start."""
    one = container("sh", "-c", "grep ' /data ' /proc/self/mounts", Volumes={written: {}})
    daemon.begin(one)
    assert daemon.wait(one) == 0
    assert [point["Destination"] for point in daemon.inspect(one)["Mounts"]] == ["/data"]


RULE = 'only "[a-zA-Z0-9][a-zA-Z0-9_.-]" are allowed. If you intended to pass a host directory, use absolute path'


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (
            {"Name": "bad name"},
            400,
            f'create bad name: "bad name" includes invalid characters for a local volume name, {RULE}',
        ),
        ({"Name": "../up"}, 400, f'create ../up: "../up" includes invalid characters for a local volume name, {RULE}'),
        (
            {"Name": ".removed"},
            400,
            f'create .removed: ".removed" includes invalid characters for a local volume name, {RULE}',
        ),
        (
            {"Name": "x"},
            400,
            "create x: volume name is too short, names should be at least two alphanumeric characters",
        ),
        (
            {"Name": "xx", "Driver": "nope"},
            404,
            'create xx: error looking up volume plugin nope: plugin "nope" not found',
        ),
        ({"Name": "xx", "DriverOpts": {"x": "y"}}, 400, 'create xx: invalid option: "x"'),
        ({"Name": "xx", "DriverOpts": {"device": "/d"}}, 400, 'create xx: missing required option: "type"'),
        ({"Name": "xx", "DriverOpts": {"type": "tmpfs"}}, 400, 'create xx: missing required option: "device"'),
        ({"Name": "xx", "DriverOpts": {"size": "x", "device": "/d"}}, 400, "create xx: invalid size: 'x'"),
        ({"Name": "xx", "DriverOpts": {"size": "1g"}}, 400, "create xx: quota size requested but no quota support"),
        ({"Name": "xx", "ClusterVolumeSpec": {}}, 503, None),
    ],
)
def test_what_cannot_be_made_is_refused_in_dockers_words(daemon, body, status, text):
    answer = daemon.request("POST", "/volumes/create", body)
    assert answer.status == status and (text is None or answer.message == text)
    assert body["Name"] not in names(daemon)


def test_a_client_that_knows_no_swarms_volumes_gets_an_ordinary_one(daemon):
    name = named()
    answer = daemon.request("POST", "/v1.41/volumes/create", {"Name": name, "ClusterVolumeSpec": {}})
    assert (answer.status, answer.json()["Scope"]) == (201, "local")
    assert daemon.request("DELETE", f"/volumes/{name}").status == 204


def test_a_volume_that_is_not_there(daemon):
    for method, query, status in (("GET", "", 404), ("DELETE", "", 404), ("DELETE", "?force=1", 204)):
        answer = daemon.request(method, f"/volumes/nope{query}")
        assert answer.status == status
        assert status == 204 or answer.message == "get nope: no such volume"


def test_only_volumes_of_a_swarm_can_be_changed(daemon, volume):
    answer = daemon.request("PUT", f"/volumes/{volume}?version=1", {})
    assert answer.status == 503
    assert answer.message == "volume update only valid for cluster volumes, but swarm is unavailable"


def test_a_volume_that_is_used_stays(daemon, busybox, volume, container):
    identifier = container("true", HostConfig={"NetworkMode": "none", "Binds": [f"{volume}:/v"]})
    for query in ("", "?force=1"):
        answer = daemon.request("DELETE", f"/volumes/{volume}{query}")
        assert (answer.status, answer.message) == (409, f"remove {volume}: volume is in use - [{identifier}]")
    daemon.remove(identifier)
    assert daemon.request("DELETE", f"/volumes/{volume}").status == 204


def test_the_filters(daemon, busybox, volume, container):
    other = named("other")
    make(daemon, other)
    container("true", HostConfig={"NetworkMode": "none", "Binds": [f"{other}:/v"]})
    both = {volume, other}
    for filters, found in (
        ({"name": [volume]}, {volume}),
        ({"name": [volume, other]}, both),
        ({"name": [f"^{other[:8]}"]}, {other}),
        ({"name": [f"^/?(k3d-|{other[:3]})*({other[3:]}|x+)+$"]}, {other}),
        ({"name": [f"{other}("]}, set()),
        ({"label": ["a"]}, {volume}),
        ({"label": ["a=b"]}, {volume}),
        ({"label": ["a=c"]}, set()),
        ({"driver": ["local"]}, both),
        ({"driver": ["nope"]}, set()),
        ({"dangling": ["true"]}, {volume}),
        ({"dangling": ["0"]}, {other}),
    ):
        assert names(daemon, **filters) & both == found, filters


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"nope": ["x"]}, "invalid filter 'nope'"),
        ({"dangling": ["maybe"]}, "invalid filter 'dangling=[maybe]'"),
        ({"dangling": ["TRUE"]}, "invalid filter 'dangling=[TRUE]'"),
    ],
)
def test_filters_that_cannot_be(daemon, filters, text):
    answer = daemon.request("GET", f"/volumes?filters={quote(json.dumps(filters))}")
    assert (answer.status, answer.message) == (400, text)


@pytest.mark.parametrize(
    ("all", "text"),
    [
        (["x"], "invalid filter 'all': strconv.ParseBool: parsing \"x\": invalid syntax"),
        (["0", "1"], "invalid filter 'all=[0 1]': only one value is expected"),
    ],
)
def test_which_volumes_to_prune_that_cannot_be(daemon, all, text):
    answer = daemon.request("POST", f"/volumes/prune?filters={quote(json.dumps({'all': all}))}")
    assert (answer.status, answer.message) == (400, text)


def pruned(daemon: Daemon, prefix: str = "", **filters: list[str]) -> dict:
    """What prune answers."""
    answer = daemon.request("POST", f"{prefix}/volumes/prune?filters={quote(json.dumps(filters))}")
    assert answer.status == 200, answer
    return answer.json()


def test_prune_takes_what_nobody_has(own_daemon):
    anonymous = own_daemon.request("POST", "/volumes/create", {}).json()["Name"]
    for name, labels in (("keep", {"k": "1"}), ("plain", {}), ("used", {})):
        make(own_daemon, name, Labels=labels)
    identifier = own_daemon.create("true", HostConfig={"NetworkMode": "none", "Binds": ["used:/v"]})
    own_daemon.shell("head -c 1000 /dev/zero > /v/f", HostConfig={"NetworkMode": "none", "Binds": [f"{anonymous}:/v"]})
    assert pruned(own_daemon) == {"VolumesDeleted": [anonymous], "SpaceReclaimed": 1000}
    assert pruned(own_daemon) == {"VolumesDeleted": [], "SpaceReclaimed": 0}
    assert pruned(own_daemon, all=["true"], **{"label!": ["k"]})["VolumesDeleted"] == ["plain"]
    assert pruned(own_daemon, all=["1"], label=["k=2"])["VolumesDeleted"] == []
    assert pruned(own_daemon, "/v1.41")["VolumesDeleted"] == ["keep"]
    assert names(own_daemon) == {"used"}
    own_daemon.remove(identifier)


def test_what_happens_to_a_volume_is_told(own_daemon):
    own_daemon.shell("true", HostConfig={"NetworkMode": "none", "Binds": ["told:/v:ro"]})
    own_daemon.request("DELETE", "/volumes/told")
    lines = []
    wanted = quote('{"type":["volume"]}')
    with own_daemon.connection() as connection:
        connection.open_stream("GET", f"/events?since=1&filters={wanted}")
        for chunk in connection.chunks():
            lines += [json.loads(line) for line in chunk.splitlines()]
            if len(lines) >= 4:
                break
    found = [(line["Action"], line["Actor"]["ID"], line["Actor"]["Attributes"]) for line in lines]
    identifier = found[1][2].pop("container")
    assert found[2][2].pop("container") == identifier
    assert found == [
        ("create", "told", {"driver": "local"}),
        ("mount", "told", {"driver": "local", "destination": "/v", "read/write": "false", "propagation": ""}),
        ("unmount", "told", {"driver": "local"}),
        ("destroy", "told", {"driver": "local"}),
    ]


def test_what_is_in_a_removed_volume_is_gone_and_its_name_is_free(daemon, busybox, volume):
    asked = {"NetworkMode": "none", "Binds": [f"{volume}:/v"]}
    daemon.shell("mkdir -p /v/a/b; ln -s /etc /v/etc; touch /v/a/b/c", HostConfig=asked)
    assert daemon.request("DELETE", f"/volumes/{volume}").status == 204
    assert daemon.shell("ls -A /v", HostConfig=asked) == "" and os.path.exists("/etc/passwd")
    assert os.listdir(daemon.data_root / "volumes/.removed") == []


def test_volumes_are_there_after_a_crash(own_daemon):
    made = make(own_daemon, "kept", Labels={"a": "b"}, DriverOpts={"type": "tmpfs", "device": "tmpfs", "o": "size=1m"})
    own_daemon.kill9()
    own_daemon.start()
    assert own_daemon.request("GET", "/volumes/kept").json() == made
    assert own_daemon.request("DELETE", "/volumes/kept").status == 204
    own_daemon.restart()
    assert names(own_daemon) == set()


def test_containers_and_removals_at_once_leave_no_container_without_its_volume(daemon, busybox):
    name, failures = named(), []

    def create() -> None:
        for _ in range(8):
            identifier = daemon.create("true", HostConfig={"NetworkMode": "none", "Binds": [f"{name}:/v"]})
            if daemon.request("GET", f"/volumes/{name}").status != 200:
                failures.append("a container without its volume")
            daemon.remove(identifier)

    def remove() -> None:
        for _ in range(40):
            answer = daemon.request("DELETE", f"/volumes/{name}")
            if answer.status not in (204, 404, 409):
                failures.append(answer)

    threads = [threading.Thread(target=work) for work in (create, create, create, remove, remove)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    daemon.request("DELETE", f"/volumes/{name}?force=1")


def test_a_volume_whose_directory_a_power_cut_took_is_there_for_a_new_container(daemon: Daemon, busybox: str) -> None:
    """Its row is on the disk and its directory was not yet: it is made again, and filled as a new one is."""
    name = named()
    shutil.rmtree(os.path.dirname(make(daemon, name)["Mountpoint"]))
    host = {"NetworkMode": "none", "Binds": [f"{name}:/bin"]}  # which the image's own directory is copied to
    assert "busybox" in daemon.shell("ls /bin", HostConfig=host)
    assert daemon.request("DELETE", f"/volumes/{name}").status == 204


def test_a_driver_that_does_not_exist_is_told_before_a_name_that_is_taken(daemon):
    """As dockerd has it, for the volume of a container too."""
    words = 'create taken: error looking up volume plugin nope: plugin "nope" not found'
    assert daemon.request("POST", "/volumes/create", {"Name": "taken"}).status == 201
    made = daemon.request("POST", "/volumes/create", {"Name": "taken", "Driver": "nope"})
    bound = {"Image": "busybox", "HostConfig": {"Binds": ["taken:/x"], "VolumeDriver": "nope"}}
    created = daemon.request("POST", "/containers/create", bound)
    assert {(each.status, each.message) for each in (made, created)} == {(404, words)}
    assert daemon.request("DELETE", "/volumes/taken").status == 204
