"""What a container asks to have mounted, as it is seen from inside and as the API tells of it."""

import os
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import rootfs
from tests.harness.daemon import Daemon

MOUNTED = "grep -F ' %s ' /proc/self/mountinfo"


@pytest.fixture
def source(world) -> Path:
    """A directory of the host with a file, a directory and a link that leads out of it."""
    path = world.directory()
    (path / "file").write_text("from the host\n")
    (path / "deeper").mkdir()
    (path / "deeper/other").write_text("deeper\n")
    (path / "out").symlink_to("/etc")
    return path


@pytest.fixture
def volume(daemon: Daemon) -> Iterator[Callable[..., str]]:
    """Make volumes that are gone after the test."""
    made: list[str] = []

    def create(**body: object) -> str:
        name = body.pop("Name", f"v-{uuid.uuid4().hex[:10]}")
        answer = daemon.request("POST", "/volumes/create", {"Name": name, **body})
        assert answer.status == 201, answer
        made.append(name)
        return name

    yield create
    for name in made:
        assert daemon.request("DELETE", f"/volumes/{name}?force=1").status in (204, 404)


def host(**values: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **values}


def bind(source: Path | str, target: str, **values: object) -> dict:
    """An entry of HostConfig.Mounts."""
    return {"Type": "bind", "Source": str(source), "Target": target, **values}


def refused(daemon: Daemon, host_config: dict, *argv: str) -> tuple[int, str]:
    """Status and text of a create, or of a start, that is refused."""
    body = {"Image": "busybox", "Cmd": list(argv) or ["true"], "HostConfig": host_config}
    answer = daemon.request("POST", "/containers/create", body)
    if answer.status != 201:
        return answer.status, answer.message
    identifier = answer.json()["Id"]
    try:
        answer = daemon.request("POST", f"/containers/{identifier}/start")
        assert answer.status != 204
        return answer.status, answer.message
    finally:
        daemon.remove(identifier)


# Binds


def test_a_bind_shows_the_hosts_files_and_takes_what_is_written(daemon, busybox, source):
    said = daemon.shell("cat /in/file; echo inside > /in/new", HostConfig=host(Binds=[f"{source}:/in"]))
    assert (said, (source / "new").read_text()) == ("from the host", "inside\n")


@pytest.mark.parametrize("form", ["bind", "mount"])
def test_a_read_only_bind_cannot_be_written(daemon, busybox, source, form):
    asked = host(Binds=[f"{source}:/in:ro"]) if form == "bind" else host(Mounts=[bind(source, "/in", ReadOnly=True)])
    output = daemon.run("sh", "-c", "cat /in/file; echo x > /in/new", HostConfig=asked)
    assert (output.stdout, output.status) == (b"from the host\n", 1)
    assert b"Read-only file system" in output.stderr and not (source / "new").exists()


def test_a_bind_of_a_file_on_a_file(daemon, busybox, source):
    asked = host(Binds=[f"{source}/file:/etc/motd"])
    assert daemon.shell("cat /etc/motd", HostConfig=asked) == "from the host"


def test_a_missing_source_of_a_bind_is_made_as_a_directory(daemon, busybox, world):
    missing = world.directory() / "not" / "there"
    daemon.shell("echo x > /in/file", HostConfig=host(Binds=[f"{missing}:/in"]))
    assert (missing / "file").exists() and missing.stat().st_mode & 0o777 == 0o755


def test_a_missing_source_of_a_mount_is_an_error_unless_it_is_to_be_made(daemon, busybox, world):
    missing = world.directory() / "missing"
    status, text = refused(daemon, host(Mounts=[bind(missing, "/in")]))
    assert (status, text) == (400, f'invalid mount config for type "bind": bind source path does not exist: {missing}')
    made = host(Mounts=[bind(missing, "/in", BindOptions={"CreateMountpoint": True})])
    daemon.shell("touch /in/file", HostConfig=made)
    assert (missing / "file").exists()


def test_a_directory_on_a_file_is_the_clients_mistake(daemon, busybox, source):
    status, text = refused(daemon, host(Binds=[f"{source}:/etc/passwd"]))
    assert status == 400 and "not a directory" in text
    assert text.endswith("Check if the specified host path exists and is the expected type")
    status, text = refused(daemon, host(Binds=[f"{source}/file:/etc"]))
    assert status == 400 and "not a directory" in text


def test_inspect_and_the_listing_show_dockers_mount_points(daemon, busybox, volume, container, source):
    name = volume()
    asked = host(
        Binds=[f"{source}:/b:ro", f"{name}:/v"],
        Mounts=[{"Type": "tmpfs", "Target": "/t"}, bind(source, "/m", BindOptions={"Propagation": "private"})],
        Tmpfs={"/only": ""},
    )
    identifier = container("sleep", "60", HostConfig=asked)
    shown = {point["Destination"]: point for point in daemon.inspect(identifier)["Mounts"]}
    path = f"{daemon.data_root}/volumes/{name}/_data"
    assert shown == {
        "/b": {
            "Type": "bind",
            "Source": str(source),
            "Destination": "/b",
            "Mode": "ro",
            "RW": False,
            "Propagation": "rprivate",
        },
        "/m": {
            "Type": "bind",
            "Source": str(source),
            "Destination": "/m",
            "Mode": "",
            "RW": True,
            "Propagation": "private",
        },
        "/t": {"Type": "tmpfs", "Source": "", "Destination": "/t", "Mode": "", "RW": True, "Propagation": ""},
        "/v": {
            "Type": "volume",
            "Name": name,
            "Source": path,
            "Destination": "/v",
            "Driver": "local",
            "Mode": "z",
            "RW": True,
            "Propagation": "",
        },
    }
    listed = daemon.request("GET", f'/containers/json?all=1&filters={{"id":["{identifier}"]}}').json()
    assert listed[0]["Mounts"] == daemon.inspect(identifier)["Mounts"]
    for value, found in ((name, 1), ("/v", 1), (str(source), 1), ("nope", 0)):
        answer = daemon.request("GET", f'/containers/json?all=1&filters={{"volume":["{value}"],"id":["{identifier}"]}}')
        assert len(answer.json()) == found, value


# Order and places


def test_mounts_lie_in_the_order_of_their_depth(daemon, busybox, source, world):
    inner = world.directory()
    (inner / "inner").write_text("")
    asked = host(Binds=[f"{inner}:/a/deeper", f"{source}:/a"])
    assert daemon.shell("ls /a/deeper", HostConfig=asked) == "inner"


def test_the_clients_own_mount_takes_the_place_of_the_engines(daemon, busybox, container, source):
    (source / "hosts").write_text("1.2.3.4 mine\n")
    asked = host(Binds=[f"{source}/hosts:/etc/hosts"], Tmpfs={"/dev/shm": "size=1m"})
    said = daemon.shell("cat /etc/hosts; grep -c ' /etc/hosts ' /proc/mounts; df -k /dev/shm", HostConfig=asked)
    assert said.startswith("1.2.3.4 mine\n1\n") and re.search(r" 1024 .* /dev/shm$", said)
    identifier = container("true", HostConfig=asked)
    assert daemon.inspect(identifier)["HostsPath"] == str(source / "hosts")


@pytest.mark.parametrize("target", ["/proc/self", "/proc/sys/net", "/proc/meminfos", "/proc/1"])
def test_nothing_is_mounted_in_proc(daemon, busybox, source, target):
    status, text = refused(daemon, host(Binds=[f"{source}:{target}"]))
    assert status == 500 and ("cannot be mounted because it is inside /proc" in text or "no such file" in text), text


def test_what_lxcfs_shows_may_be_mounted_in_proc(daemon, busybox, source):
    asked = host(Binds=[f"{source}/file:/proc/meminfo"])
    assert daemon.shell("cat /proc/meminfo", HostConfig=asked) == "from the host"


def test_on_proc_itself_goes_only_a_proc(daemon, busybox, source):
    status, text = refused(daemon, host(Binds=[f"{source}:/proc"]))
    assert status == 500 and "because it is not of type proc" in text
    assert "Name" in daemon.shell("cat /proc/1/status", HostConfig=host(Binds=["/proc:/proc"]))


def test_a_masked_path_stays_masked_whatever_is_mounted_there(daemon, busybox, source):
    if not os.path.isdir("/sys/firmware"):
        pytest.skip("this host has no /sys/firmware")
    assert daemon.shell("ls -A /sys/firmware", HostConfig=host(Binds=[f"{source}:/sys/firmware"])) == ""


def test_a_dev_of_the_clients_is_left_as_it_is(daemon, busybox, source):
    (source / "null").write_text("")
    daemon.shell("ls /dev > /dev/deeper/seen", HostConfig=host(Binds=[f"{source}:/dev"]))
    assert sorted(os.listdir(source)) == ["deeper", "file", "null", "out"]


# A read-only root


def test_a_read_only_root_has_writable_mounts_on_top(daemon, busybox, source):
    asked = host(ReadonlyRootfs=True, Binds=[f"{source}:/in"], Tmpfs={"/run": ""})
    script = "touch /in/a /run/b /dev/shm/c; touch /x 2>/dev/null || echo ro; echo x 2>/dev/null > /etc/hosts || echo ro"
    assert daemon.shell(script, HostConfig=asked) == "ro\nro"


# Tmpfs


def test_a_tmpfs_has_dockers_flags_and_what_was_asked(daemon, busybox):
    asked = host(Tmpfs={"/t": "size=1m,mode=700,exec", "/tmp": ""})
    said = daemon.shell("grep -E ' /(t|tmp) ' /proc/mounts; stat -c %a /t /tmp", HostConfig=asked)
    assert re.search(r"^tmpfs /t tmpfs rw,nosuid,nodev,relatime,size=1024k,mode=700", said, re.MULTILINE), said
    assert re.search(r"^tmpfs /tmp tmpfs rw,nosuid,nodev,noexec,relatime", said, re.MULTILINE), said
    assert said.endswith("700\n1777")


def test_a_tmpfs_of_mounts_has_size_mode_and_options(daemon, busybox):
    options = {"SizeBytes": 2 << 20, "Mode": 0o711, "Options": [["exec"]]}
    asked = host(Mounts=[{"Type": "tmpfs", "Target": "/t", "TmpfsOptions": options}])
    said = daemon.shell("grep ' /t ' /proc/mounts; stat -c %a /t", HostConfig=asked)
    assert "rw,nosuid,nodev,relatime,size=2048k,mode=711" in said and said.endswith("\n711")
    readonly = host(Mounts=[{"Type": "tmpfs", "Target": "/t", "ReadOnly": True}])
    assert " ro," in daemon.shell("grep ' /t ' /proc/mounts", HostConfig=readonly)


@pytest.mark.parametrize(
    ("options", "text"), [("size=abc", "data=size=abc: invalid argument"), ("nope", 'invalid tmpfs option ["nope"]')]
)
def test_bad_options_of_a_tmpfs_are_met_at_start(daemon, busybox, options, text):
    status, said = refused(daemon, host(Tmpfs={"/x": options}))
    assert status == 500 and said.endswith(text)


# Read-only all the way down, and what is mounted below


@pytest.fixture
def mounted(world, daemon, source) -> Iterator[Callable[..., None]]:
    """Run mount(8) in the daemon's namespace; what was mounted is gone after the test."""
    places: list[str] = []

    def mount(*words: str) -> None:
        subprocess.run(world.namespaces.command(["mount", *words]), check=True, timeout=20)
        if not words[0].startswith("--make"):
            places.append(words[-1])

    yield mount
    for place in reversed(places):
        subprocess.run(world.namespaces.command(["umount", "-l", place]), check=True, timeout=20)


@pytest.mark.parametrize(
    ("options", "writable"),
    [({}, False), ({"ReadOnlyNonRecursive": True}, True), ({"ReadOnlyForceRecursive": True}, False)],
)
def test_read_only_goes_down_unless_it_is_not_to(daemon, busybox, source, mounted, options, writable):
    mounted("-t", "tmpfs", "below", str(source / "deeper"))
    asked = host(Mounts=[bind(source, "/in", ReadOnly=True, BindOptions=options)])
    output = daemon.run("sh", "-c", "touch /in/x; touch /in/deeper/y && echo written", HostConfig=asked)
    assert (output.stdout == b"written\n") is writable and b"/in/x: Read-only" in output.stderr


def test_a_bind_that_is_not_recursive_shows_nothing_mounted_below(daemon, busybox, source, mounted):
    mounted("-t", "tmpfs", "below", str(source / "deeper"))
    recursive = host(Mounts=[bind(source, "/in")])
    alone = host(Mounts=[bind(source, "/in", BindOptions={"NonRecursive": True})])
    assert daemon.shell("ls /in/deeper", HostConfig=recursive) == ""
    assert daemon.shell("ls /in/deeper", HostConfig=alone) == "other"


def test_a_mount_that_the_host_made_a_moment_ago_is_seen(daemon, busybox, source, mounted):
    """A spare process was forked before, from a host without this mount and, as here, without propagation."""
    daemon.shell("true")
    mounted("-t", "tmpfs", "fresh", str(source / "deeper"))
    assert daemon.shell("ls /in", HostConfig=host(Binds=[f"{source}/deeper:/in"])) == ""


# Propagation


@pytest.mark.parametrize("mode", ["shared", "rshared", "slave", "rslave"])
def test_propagation_needs_a_shared_source(daemon, busybox, source, mounted, mode):
    mounted("--bind", str(source), str(source))
    status, text = refused(daemon, host(Binds=[f"{source}:/in:{mode}"]))
    kind = "shared" if "shared" in mode else "shared or slave"
    assert (status, text) == (500, f"path {source} is mounted on {source} but it is not a {kind} mount")


@pytest.mark.parametrize(("mode", "seen"), [("rslave", True), ("rshared", True), ("rprivate", False)])
def test_a_mount_of_the_hosts_comes_into_a_slave_or_shared_bind(daemon, busybox, container, source, mounted, mode, seen):
    mounted("--bind", str(source), str(source))
    mounted("--make-shared", str(source))
    script = "until [ -e /in/go ]; do sleep 0.02; done; ls /in/deeper"
    identifier = container("sh", "-c", script, HostConfig=host(Binds=[f"{source}:/in:{mode}"]))
    daemon.begin(identifier)
    mounted("-t", "tmpfs", "later", str(source / "deeper"))
    (source / "go").touch()
    assert daemon.wait(identifier) == 0
    assert (b"other" in daemon.logs(identifier)) is not seen


@pytest.mark.parametrize(("mode", "seen"), [("rshared", True), ("rslave", False), ("rprivate", False)])
def test_a_mount_of_the_containers_goes_out_of_a_shared_bind_alone(
    daemon, busybox, container, world, source, mounted, mode, seen
):
    mounted("--bind", str(source), str(source))
    mounted("--make-shared", str(source))
    asked = host(Binds=[f"{source}:/in:{mode}"], CapAdd=["SYS_ADMIN"], SecurityOpt=["seccomp=unconfined"])
    script = "mount -t tmpfs inside /in/deeper && touch /in/done && sleep 60"
    identifier = container("sh", "-c", script, HostConfig=asked)
    daemon.begin(identifier)
    subprocess.run(["sh", "-c", f"until [ -e {source}/done ]; do sleep 0.02; done"], timeout=20, check=True)
    place = f"{source}/deeper"
    found = place in world.namespaces.mounts()
    if found:
        subprocess.run(world.namespaces.command(["umount", place]), check=True, timeout=20)
    assert found is seen


# Volumes


def test_a_named_volume_is_made_on_demand_and_outlives_its_containers(daemon, busybox, volume):
    name = volume()
    daemon.shell("echo kept > /v/file", HostConfig=host(Binds=[f"{name}:/v"]))
    mount = {"Type": "volume", "Source": name, "Target": "/w", "ReadOnly": True}
    output = daemon.run("sh", "-c", "cat /w/file; touch /w/x", HostConfig=host(Mounts=[mount]))
    assert (output.stdout, output.status) == (b"kept\n", 1)


def with_volume(daemon: Daemon, name: str = "filled") -> str:
    """An image with a VOLUME that has contents."""
    archive = rootfs.archive(
        [("data/file", 0o640, b"of the image\n"), ("data/deeper/other", 0o644, b"too\n")],
        (("data", 0o1770), ("data/deeper", 0o700)),
        [("data/link", "deeper/other"), ("way", "/data")],
    )
    base = rootfs.busybox()
    end = archive_end(base)
    return daemon.import_image(base[:end] + archive, f"{name}:latest", (*rootfs.CHANGES, "VOLUME /data"))


def archive_end(data: bytes) -> int:
    """Where the zeros that end a tar begin."""
    end = len(data.rstrip(b"\0"))
    return (end + 511) // 512 * 512


@pytest.fixture
def filled(daemon, busybox) -> Iterator[str]:
    """An image whose volume /data has contents."""
    with_volume(daemon)
    yield "filled"
    daemon.request("DELETE", "/images/filled?force=1")


def test_an_images_volume_is_filled_from_the_image(daemon, filled):
    said = daemon.shell("stat -c %a /data /data/deeper; cat /data/file /data/link; grep -c ' /data ' /proc/mounts", Image=filled)
    assert said.split("\n") == ["1770", "700", "of the image", "too", "1"]


def test_an_anonymous_volume_goes_with_its_container_only_when_asked(daemon, filled):
    identifier = daemon.create("true", Image=filled)
    name = daemon.inspect(identifier)["Mounts"][0]["Name"]
    shown = daemon.request("GET", f"/volumes/{name}").json()
    assert re.fullmatch("[0-9a-f]{64}", name) and shown["Labels"] == {"com.docker.volume.anonymous": ""}
    assert daemon.request("DELETE", f"/containers/{identifier}").status == 204
    assert daemon.request("GET", f"/volumes/{name}").status == 200
    assert daemon.request("DELETE", f"/volumes/{name}").status == 204
    identifier = daemon.create("true", Image=filled)
    name = daemon.inspect(identifier)["Mounts"][0]["Name"]
    daemon.remove(identifier)
    assert daemon.request("GET", f"/volumes/{name}").status == 404
    assert not os.path.exists(f"{daemon.data_root}/volumes/{name}")


@pytest.mark.parametrize(("mode", "found"), [("", "file"), (":nocopy", "")])
def test_an_empty_named_volume_is_filled_unless_it_is_not_to_be(daemon, filled, volume, mode, found):
    name = volume()
    assert found in daemon.shell("ls /data", Image=filled, HostConfig=host(Binds=[f"{name}:/data{mode}"]))
    options = {"NoCopy": bool(mode)}
    other = volume()
    mount = {"Type": "volume", "Source": other, "Target": "/way", "VolumeOptions": options}
    assert found in daemon.shell("ls /data", Image=filled, HostConfig=host(Mounts=[mount]))


def test_a_volume_with_contents_is_not_filled(daemon, filled, volume):
    name = volume()
    daemon.shell("touch /v/mine", HostConfig=host(Binds=[f"{name}:/v"]))
    assert daemon.shell("ls /data", Image=filled, HostConfig=host(Binds=[f"{name}:/data"])) == "mine"


def test_a_volume_is_not_put_on_a_file_of_the_image(daemon, busybox):
    answer = daemon.request(
        "POST", "/containers/create", {"Image": "busybox", "Volumes": {"/etc/passwd": {}}, "HostConfig": host()}
    )
    assert (answer.status, answer.message) == (
        500,
        "cannot mount volume over existing file, file exists /etc/passwd",
    )


def test_a_subpath_shows_that_part_of_a_volume(daemon, busybox, volume):
    name = volume()
    daemon.shell("mkdir -p /v/a/b; echo x > /v/a/b/file; ln -s a/b /v/link", HostConfig=host(Binds=[f"{name}:/v"]))
    for subpath, script in (("a/b", "cat /w/file"), ("link", "cat /w/file"), ("a/b/file", "cat /w")):
        mount = {"Type": "volume", "Source": name, "Target": "/w", "VolumeOptions": {"Subpath": subpath}}
        assert daemon.shell(script, HostConfig=host(Mounts=[mount])) == "x"


def test_a_subpath_that_is_not_there_is_an_error(daemon, busybox, volume):
    mount = {"Type": "volume", "Source": volume(), "Target": "/w", "VolumeOptions": {"Subpath": "nope"}}
    status, text = refused(daemon, host(Mounts=[mount]))
    assert status == 500 and "no such file or directory" in text


def test_the_mounts_of_another_container(daemon, busybox, volume, container, source):
    name = volume()
    binds = [f"{source}:/b", f"{name}:/v", f"{source}:/r:ro"]
    first = container("true", HostConfig=host(Binds=binds))
    said = daemon.shell(
        "touch /v/x && ls /b/file; touch /r/x 2>/dev/null || echo ro", HostConfig=host(VolumesFrom=[first])
    )
    assert said == "/b/file\nro"
    output = daemon.run("touch", "/v/y", HostConfig=host(VolumesFrom=[f"{first}:ro"]))
    assert output.status == 1 and b"Read-only" in output.stderr
    assert refused(daemon, host(VolumesFrom=["nope"])) == (400, "No such container: nope")
    assert refused(daemon, host(VolumesFrom=[f"{first}:rslave"])) == (400, "invalid mode: rslave")


def test_a_volume_that_came_from_another_container_stays_while_one_has_it(daemon, filled):
    first = daemon.create("true", Image=filled)
    second = daemon.create("true", HostConfig=host(VolumesFrom=[first]))
    name = daemon.inspect(second)["Mounts"][0]["Name"]
    daemon.remove(first)
    assert daemon.request("GET", f"/volumes/{name}").status == 200
    daemon.remove(second)
    assert daemon.request("GET", f"/volumes/{name}").status == 404


@pytest.mark.parametrize("form", ["driver", "mount"])
def test_another_driver_is_dockers_error(daemon, busybox, form):
    if form == "driver":
        asked = host(VolumeDriver="nope", Binds=["some-volume:/x"])
    else:
        options = {"DriverConfig": {"Name": "nope"}}
        asked = host(Mounts=[{"Type": "volume", "Source": "some-volume", "Target": "/x", "VolumeOptions": options}])
    text = 'create some-volume: error looking up volume plugin nope: plugin "nope" not found'
    assert refused(daemon, asked) == (404, text)


# Volumes with options


def test_a_volume_of_another_directory(daemon, busybox, source, volume, world):
    name = volume(DriverOpts={"type": "none", "o": "bind", "device": str(source)})
    before = world.namespaces.mounts()
    assert daemon.shell("cat /v/file; touch /v/new", HostConfig=host(Binds=[f"{name}:/v"])) == "from the host"
    assert (source / "new").exists() and world.namespaces.mounts() == before
    gone = volume(DriverOpts={"type": "none", "o": "bind", "device": str(source / "gone")})
    status, text = refused(daemon, host(Binds=[f"{gone}:/v"]))
    assert status == 500 and "failed to mount local volume" in text and "no such file or directory" in text


def test_a_volume_in_memory_is_shared_while_it_is_used(daemon, busybox, volume, container):
    name = volume(DriverOpts={"type": "tmpfs", "device": "tmpfs", "o": "size=1m,uid=7"})
    asked = host(Binds=[f"{name}:/v"])
    said = daemon.shell("grep ' /v ' /proc/mounts; stat -c %u /v; touch /v/x", HostConfig=asked)
    assert "size=1024k" in said and said.endswith("\n7")
    first = container("sh", "-c", "echo here > /v/x; touch /v/done; sleep 60", HostConfig=host(Binds=[f"{name}:/v:rw"]))
    daemon.begin(first)
    said = daemon.shell("until [ -e /w/done ]; do sleep 0.02; done; cat /w/x; touch /w/y", HostConfig=host(Binds=[f"{name}:/w"]))
    assert said == "here"


def test_a_volume_in_memory_can_have_a_subpath_and_be_read_only(daemon, busybox, volume, container):
    name = volume(DriverOpts={"type": "tmpfs", "device": "tmpfs"})
    first = container("sh", "-c", "mkdir /v/a; touch /v/a/b; touch /v/done; sleep 60", HostConfig=host(Binds=[f"{name}:/v"]))
    daemon.begin(first)
    daemon.shell("until [ -e /w/done ]; do sleep 0.02; done", HostConfig=host(Binds=[f"{name}:/w"]))
    options = {"Subpath": "a"}
    mount = {"Type": "volume", "Source": name, "Target": "/w", "ReadOnly": True, "VolumeOptions": options}
    assert daemon.shell("ls /w; touch /w/x 2>/dev/null || echo ro", HostConfig=host(Mounts=[mount])) == "b\nro"


# Images


def test_an_image_is_mounted_without_a_writable_layer(daemon, filled, busybox):
    mount = {"Type": "image", "Source": "filled", "Target": "/i"}
    said = daemon.shell("cat /i/data/file; touch /i/x 2>/dev/null || echo ro", HostConfig=host(Mounts=[mount]))
    assert said == "of the image\nro"
    for subpath, script in (("data", "cat /i/file"), ("way", "cat /i/file"), ("data/file", "cat /i")):
        part = {**mount, "ImageOptions": {"Subpath": subpath}}
        assert daemon.shell(script, HostConfig=host(Mounts=[part])) == "of the image"


def test_a_mounted_image_keeps_its_layers_while_the_container_is_there(daemon, busybox, container):
    with_volume(daemon, "kept")
    identifier = container("cat", "/i/data/file", HostConfig=host(Mounts=[{"Type": "image", "Source": "kept", "Target": "/i"}]))
    image = daemon.request("GET", "/images/kept/json").json()["Id"]
    assert daemon.request("DELETE", f"/images/{image}").status == 409
    assert daemon.request("DELETE", f"/images/{image}?force=1").status == 200
    daemon.begin(identifier)
    assert daemon.wait(identifier) == 0 and b"of the image" in daemon.logs(identifier)


def test_an_image_that_is_not_there_cannot_be_mounted(daemon, busybox):
    mount = {"Type": "image", "Source": "nope", "Target": "/i"}
    assert refused(daemon, host(Mounts=[mount])) == (404, "No such image: nope:latest")


@pytest.mark.parametrize("kind", ["cluster", "npipe"])
def test_kinds_of_other_systems_are_unknown(daemon, busybox, kind):
    mount = {"Type": kind, "Source": "/x", "Target": "/i"}
    assert refused(daemon, host(Mounts=[mount])) == (400, f'invalid mount config for type "{kind}": mount type unknown')


# A daemon that ends


@pytest.mark.parametrize("how", ["restart", "kill9"])
def test_mounts_and_volumes_outlive_the_daemon(own_daemon, source, how):
    script = "echo run >> /v/log; sleep 60"
    asked = host(Binds=[f"{source}:/b", "kept:/v"], Mounts=[{"Type": "volume", "Target": "/a"}])
    identifier = own_daemon.create("sh", "-c", script, HostConfig=asked)
    own_daemon.begin(identifier)
    before = own_daemon.inspect(identifier)["Mounts"]
    if how == "restart":
        own_daemon.restart()
    else:
        own_daemon.kill9()
        own_daemon.start()
    assert own_daemon.inspect(identifier)["Mounts"] == before and len(before) == 3
    answer = own_daemon.request("DELETE", "/volumes/kept")
    assert (answer.status, answer.message) == (409, f"remove kept: volume is in use - [{identifier}]")
    own_daemon.request("POST", f"/containers/{identifier}/kill")
    own_daemon.wait(identifier)
    own_daemon.begin(identifier)
    assert own_daemon.shell("cat /v/log", HostConfig=host(Binds=["kept:/v"])) == "run\nrun"
    own_daemon.remove(identifier)
    names = [each["Name"] for each in own_daemon.request("GET", "/volumes").json()["Volumes"]]
    assert names == ["kept"] and own_daemon.request("DELETE", "/volumes/kept").status == 204
