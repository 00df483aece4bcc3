"""Volumes that a plugin keeps: made, listed, mounted by containers and removed, through a plugin of the test's."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.plugin import Plugin, Volumes


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the daemon of these tests looks for plugins; a short path, as a socket's has to be."""
    return tmp_path_factory.mktemp("p")


@pytest.fixture(scope="module")
def plugged(world, directory: Path) -> Iterator[Daemon]:
    """A daemon that looks for plugins there."""
    daemon = world.daemon(["--plugin-dir", str(directory)]).start()
    daemon.import_busybox()
    yield daemon
    daemon.stop()


@pytest.fixture
def keeper(directory: Path, tmp_path: Path, plugged: Daemon) -> Iterator[Volumes]:
    """The volume driver `keeper`; what the test has left is removed after it."""
    with Volumes(tmp_path).serving(directory / "keeper.sock") as made:
        yield made
        for each in plugged.request("GET", "/containers/json?all=1").json():
            plugged.remove(each["Id"])
        for volume in plugged.request("GET", "/volumes").json()["Volumes"]:
            plugged.request("DELETE", f"/volumes/{volume['Name']}?force=1")
    assert not any(made.mounted.values())


def create(daemon: Daemon, name: str, **options: str) -> dict:
    """A volume of the driver `keeper`."""
    answer = daemon.request("POST", "/volumes/create", {"Name": name, "Driver": "keeper", "DriverOpts": options})
    assert answer.status == 201, answer.message
    return answer.json()


def run(daemon: Daemon, script: str, bind: str, **host_config: object) -> str:
    """What a container has written that ran this script with this bind; its exit code is 0."""
    one = daemon.create("sh", "-c", script, HostConfig={"NetworkMode": "none", "Binds": [bind], **host_config})
    daemon.begin(one)
    code = daemon.wait(one)
    said = frames.stdout(daemon.logs(one, "stdout=1")).decode()
    daemon.remove(one)
    assert code == 0, said
    return said


def test_a_volume_lives_in_its_plugin(plugged: Daemon, keeper: Volumes) -> None:
    """From its creation with options to its removal; everything about it is the plugin's word."""
    shown = {
        "CreatedAt": "2026-11-22T00:30:16Z",
        "Driver": "keeper",
        "Labels": None,
        "Mountpoint": "",
        "Name": "one",
        "Options": {"a": "b"},
        "Scope": "global",
        "Status": {"options": {"a": "b"}},
    }
    assert create(plugged, "one", a="b") == shown
    assert keeper.asked("VolumeDriver.Create") == [{"Name": "one", "Opts": {"a": "b"}}]
    assert create(plugged, "one") == shown
    assert plugged.request("GET", "/volumes/one").json() == shown
    assert plugged.request("GET", "/volumes").json()["Volumes"] == [shown]
    assert plugged.request("GET", '/volumes?filters={"driver":["local"]}').json()["Volumes"] == []
    assert plugged.request("GET", "/info").json()["Plugins"]["Volume"] == ["local", "keeper"]
    assert plugged.request("GET", "/system/df").json()["Volumes"] in ([], None)
    assert plugged.request("DELETE", "/volumes/one").status == 204
    assert keeper.volumes == {}
    answer = plugged.request("GET", "/volumes/one")
    assert (answer.status, answer.message) == (404, "get one: no such volume")


def test_a_container_has_it_mounted_for_as_long_as_it_runs(plugged: Daemon, keeper: Volumes) -> None:
    """With an id for each mount, which its end gives back."""
    create(plugged, "data")
    one = plugged.create(
        *("sh", "-c", "echo hello > /a/file; cat /b/file; read x"),
        OpenStdin=True,
        HostConfig={"NetworkMode": "none", "Binds": ["data:/a", "data:/b:ro"]},
    )
    assert not keeper.mounted.get("data")
    plugged.begin(one)
    assert len(keeper.mounted["data"]) == 2
    assert plugged.request("GET", "/volumes/data").json()["Mountpoint"] == str(keeper.place("data"))
    mounts = {each["Destination"]: each for each in plugged.inspect(one)["Mounts"]}
    assert mounts["/a"]["Source"] == str(keeper.place("data"))
    assert (mounts["/a"]["Driver"], mounts["/b"]["RW"]) == ("keeper", False)
    file = keeper.place("data") / "file"
    until(lambda: file.exists() and file.read_text() == "hello\n")
    plugged.request("POST", f"/containers/{one}/kill")
    plugged.wait(one)
    plugged.remove(one)
    assert not keeper.mounted["data"]


def test_a_volume_that_is_empty_gets_the_images_files(plugged: Daemon, keeper: Volumes) -> None:
    """As one of the engine's own does; the plugin mounts it meanwhile."""
    assert "busybox" in run(plugged, "ls /bin", "filled:/bin", VolumeDriver="keeper")
    assert (keeper.place("filled") / "busybox").exists()


def test_files_of_a_stopped_container_are_reached_through_its_plugin(plugged: Daemon, keeper: Volumes) -> None:
    """As docker cp does."""
    create(plugged, "data")
    (keeper.place("data") / "file").write_text("content")
    one = plugged.create("true", HostConfig={"NetworkMode": "none", "Binds": ["data:/d"]})
    answer = plugged.request("GET", f"/containers/{one}/archive?path=/d/file")
    assert (answer.status, b"content" in answer.body) == (200, True)
    assert keeper.mounted["data"] == set()


def test_volumes_that_only_the_plugin_knows_are_found_and_removed(plugged: Daemon, keeper: Volumes) -> None:
    """Whoever has made them."""
    keeper._create({"Name": "theirs", "Opts": None})
    assert [each["Name"] for each in plugged.request("GET", "/volumes").json()["Volumes"]] == ["theirs"]
    assert plugged.request("GET", "/volumes/theirs").json()["Driver"] == "keeper"
    assert plugged.request("DELETE", "/volumes/theirs").status == 204
    assert keeper.volumes == {}


@pytest.mark.parametrize(
    ("name", "driver", "options", "status", "message"),
    [
        ("x1", "nosuch", {}, 404, 'create x1: error looking up volume plugin nosuch: plugin "nosuch" not found'),
        ("x1", "../x", {}, 404, 'create x1: error looking up volume plugin ../x: plugin "../x" not found'),
        ("x1", "keeper", {"fail": "no room"}, 500, "create x1: no room"),
    ],
)
def test_what_fails_is_told_in_dockers_words(
    plugged: Daemon, keeper: Volumes, name: str, driver: str, options: dict, status: int, message: str
) -> None:
    """And nothing is left of it."""
    body = {"Name": name, "Driver": driver, "DriverOpts": options}
    answer = plugged.request("POST", "/volumes/create", body)
    assert (answer.status, answer.message) == (status, message)
    assert plugged.request("GET", "/volumes").json()["Volumes"] == []


def test_a_name_is_of_one_driver(plugged: Daemon, keeper: Volumes) -> None:
    """Which is told to who asks for another."""
    create(plugged, "mine")
    answer = plugged.request("POST", "/volumes/create", {"Name": "mine", "Driver": "local"})
    words = "create mine: driver 'keeper' already has volume 'mine': volume name must be unique"
    assert (answer.status, answer.message) == (409, words)


def test_a_volume_in_use_stays(plugged: Daemon, keeper: Volumes) -> None:
    """Also for the plugin, which is not asked."""
    create(plugged, "used")
    one = plugged.create("true", HostConfig={"NetworkMode": "none", "Binds": ["used:/d"]})
    answer = plugged.request("DELETE", "/volumes/used")
    assert (answer.status, answer.message) == (409, f"remove used: volume is in use - [{one}]")
    assert keeper.asked("VolumeDriver.Remove") == []


def test_prune_leaves_volumes_of_plugins_alone(plugged: Daemon, keeper: Volumes) -> None:
    """As docker does."""
    create(plugged, "kept")
    answer = plugged.request("POST", '/volumes/prune?filters={"all":["true"]}')
    assert answer.json()["VolumesDeleted"] in ([], None)
    assert "kept" in keeper.volumes


@pytest.mark.parametrize("path", ["relative/path", "", None, 7, "/a\0b", "/" + "x" * 5000])
def test_a_path_that_is_none_is_refused(plugged: Daemon, keeper: Volumes, path: object) -> None:
    """At the start, in words; and the plugin hears that the mount is not needed."""
    create(plugged, "odd")
    mount = keeper.methods["VolumeDriver.Mount"]
    keeper.methods["VolumeDriver.Mount"] = lambda asked: {**mount(asked), "Mountpoint": path}
    one = plugged.create("true", HostConfig={"NetworkMode": "none", "Mounts": [volume("odd")]})
    answer = plugged.request("POST", f"/containers/{one}/start")
    words = "error while mounting volume 'odd': the volume driver keeper has told no absolute path for the volume odd"
    assert (answer.status, answer.message) == (500, words)
    assert keeper.mounted["odd"] == set()


def volume(name: str) -> dict:
    """A mount that is not filled with the image's files."""
    return {"Type": "volume", "Source": name, "Target": "/d", "VolumeOptions": {"NoCopy": True}}


def test_a_path_that_is_not_there_is_told(plugged: Daemon, keeper: Volumes) -> None:
    """By the init of the container."""
    create(plugged, "away")
    mount = keeper.methods["VolumeDriver.Mount"]
    keeper.methods["VolumeDriver.Mount"] = lambda asked: {**mount(asked), "Mountpoint": "/not/there"}
    one = plugged.create("true", HostConfig={"NetworkMode": "none", "Mounts": [volume("away")]})
    answer = plugged.request("POST", f"/containers/{one}/start")
    assert answer.status in (400, 500)
    assert "/not/there" in answer.message
    assert keeper.mounted["away"] == set()


def test_a_plugin_that_hangs_holds_up_only_who_waits_for_it(plugged: Daemon, keeper: Volumes) -> None:
    """Other containers and volumes are made meanwhile."""
    go, asked = threading.Event(), threading.Event()
    create_ = keeper.methods["VolumeDriver.Create"]

    def slow(arguments: dict) -> object:
        asked.set()
        go.wait(60)
        return create_(arguments)

    keeper.methods["VolumeDriver.Create"] = slow
    waiting = threading.Thread(target=create, args=(plugged, "slow"))
    waiting.start()
    assert asked.wait(30)
    plugged.request("POST", "/volumes/create", {"Name": "quick"})
    assert run(plugged, "echo hi", "quick:/d") == "hi\n"
    go.set()
    waiting.join()


def test_a_plugin_that_hangs_at_the_end_of_a_run_holds_up_only_its_next_one(plugged: Daemon, keeper: Volumes) -> None:
    """Who waits for the end is told of it, and others are run."""
    go, asked = threading.Event(), threading.Event()
    unmount = keeper.methods["VolumeDriver.Unmount"]

    def slow(arguments: dict) -> object:
        asked.set()
        go.wait(60)
        return unmount(arguments)

    create(plugged, "held")
    one = plugged.create("sh", "-c", "exit 3", HostConfig={"NetworkMode": "none", "Binds": ["held:/d"]})
    keeper.methods["VolumeDriver.Unmount"] = slow
    plugged.begin(one)
    assert asked.wait(30)
    assert plugged.wait(one) == 3
    assert plugged.inspect(one)["State"]["Status"] == "exited"
    assert plugged.shell("echo hi") == "hi"
    next_ = threading.Thread(target=plugged.begin, args=(one,))
    next_.start()
    next_.join(0.5)
    assert next_.is_alive()
    go.set()
    next_.join(30)
    assert plugged.wait(one) == 3
    plugged.remove(one)
    assert keeper.mounted["held"] == set()


def test_a_plugin_that_lists_rubbish_is_not_believed(plugged: Daemon, keeper: Volumes) -> None:
    """One that fails is a warning, and its volumes are shown as they are known here."""
    create(plugged, "known")
    keeper.methods["VolumeDriver.List"] = lambda _: {"Volumes": [1, {"Name": 5}, {"Mountpoint": "x"}, None]}
    assert plugged.request("GET", "/volumes").json() == {"Volumes": [], "Warnings": None}
    keeper.methods["VolumeDriver.List"] = lambda _: {"Err": "out of order"}
    listed = plugged.request("GET", "/volumes").json()
    assert [each["Name"] for each in listed["Volumes"]] == ["known"]
    assert listed["Warnings"] == ["list keeper: out of order"]


def test_force_forgets_what_a_plugin_does_not_remove(plugged: Daemon, keeper: Volumes) -> None:
    """Without it the refusal is told."""
    create(plugged, "stuck")
    keeper.methods["VolumeDriver.Remove"] = lambda _: {"Err": "never"}
    answer = plugged.request("DELETE", "/volumes/stuck")
    assert (answer.status, answer.message) == (500, "remove stuck: never")
    assert plugged.request("DELETE", "/volumes/stuck?force=1").status == 204
    keeper.volumes.clear()
    assert plugged.request("GET", "/volumes").json()["Volumes"] == []


def test_a_container_goes_though_its_volumes_stay(plugged: Daemon, keeper: Volumes) -> None:
    """The plugin that does not remove an anonymous volume is no reason to keep the container."""
    one = plugged.create("true", Volumes={"/d": {}}, HostConfig={"NetworkMode": "none", "VolumeDriver": "keeper"})
    assert len(keeper.volumes) == 1
    remove = keeper.methods["VolumeDriver.Remove"]
    keeper.methods["VolumeDriver.Remove"] = lambda _: {"Err": "never"}
    assert plugged.request("DELETE", f"/containers/{one}?v=1").status == 204
    assert plugged.request("GET", f"/containers/{one}/json").status == 404
    assert len(keeper.volumes) == 1
    keeper.methods["VolumeDriver.Remove"] = remove


def test_a_plugin_of_something_else_is_no_volume_driver(plugged: Daemon, directory: Path) -> None:
    """In the words of dockerd."""
    with Plugin("authz").serving(directory / "other.sock"):
        answer = plugged.request("POST", "/volumes/create", {"Name": "xx", "Driver": "other"})
    words = (
        "create xx: error looking up volume plugin other: legacy plugin:"
        ' Plugin does not implement the requested driver: plugin="other", requested implementation="VolumeDriver"'
    )
    assert (answer.status, answer.message) == (500, words)


def test_mounts_are_given_back_by_the_next_daemon(
    make_daemon: Callable[..., Daemon], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Those of a container that ended while there was none."""
    directory = tmp_path_factory.mktemp("q")
    with Volumes(tmp_path).serving(directory / "keeper.sock") as keeper, contextlib.ExitStack() as stack:
        own = make_daemon("--plugin-dir", str(directory))
        own.import_busybox()
        create(own, "data")
        body = {"NetworkMode": "none", "Binds": ["data:/d"]}
        one = own.create("sh", "-c", "while [ ! -e /d/go ]; do sleep 0.05; done", HostConfig=body)
        own.begin(one)
        stack.callback(own.remove, one)
        assert len(keeper.mounted["data"]) == 1
        own.kill9()
        (keeper.place("data") / "go").write_text("")
        own.start()
        assert own.wait(one) == 0
        until(lambda: not keeper.mounted["data"])


def until(done: Callable[[], bool]) -> None:
    """Wait for what comes soon."""
    waiting = threading.Event()
    for _ in range(1000):
        if done():
            return
        waiting.wait(0.02)
    raise AssertionError("it did not come")
