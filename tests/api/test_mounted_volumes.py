"""Volumes and images as containers have them mounted: made, filled, shared, and gone with them."""

import os
import re
from collections.abc import Iterator

import pytest

from tests.api.mounting import host, refused, source, volume
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running

__all__ = ["source", "volume"]


def test_a_named_volume_is_made_on_demand_and_outlives_its_containers(daemon, busybox, volume):
    name = volume()
    daemon.shell("echo kept > /v/file", HostConfig=host(Binds=[f"{name}:/v"]))
    mount = {"Type": "volume", "Source": name, "Target": "/w", "ReadOnly": True}
    output = daemon.run("sh", "-c", "cat /w/file; touch /w/x", HostConfig=host(Mounts=[mount]))
    assert (output.stdout, output.status) == (b"kept\n", 1)


def names(daemon: Daemon) -> set[str]:
    """All volumes."""
    return {each["Name"] for each in daemon.request("GET", "/volumes").json()["Volumes"] or ()}


def with_volume(daemon: Daemon, name: str = "filled") -> str:
    """An image with a VOLUME that has contents."""
    archive = rootfs.archive(
        [("data/file", 0o640, b"of the image\n"), ("data/deeper/other", 0o644, b"too\n")],
        (("data", 0o1770), ("data/deeper", 0o700)),
        [("data/link", "deeper/other"), ("way", "data"), ("out", "../../../.."), ("away", "out/etc"), ("top", "/")],
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
    said = daemon.shell(
        "stat -c %a /data /data/deeper; cat /data/file /data/link; grep -c ' /data ' /proc/mounts", Image=filled
    )
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


@pytest.mark.parametrize("form", ["named", "part", "bound"])
def test_a_read_only_volume_on_etc_has_the_names_of_what_is_mounted_there(daemon, busybox, volume, world, form):
    """As dockerd's has: the engine's files are mounted on them. The image's own files are there too."""
    options = {"type": "none", "o": "bind", "device": str(world.directory())} if form == "bound" else {}
    name, place = volume(DriverOpts=options), ""
    mount = {"Type": "volume", "Source": name, "Target": "/etc", "ReadOnly": True}
    if form == "part":
        place = "/deep"
        daemon.shell("mkdir /v/deep", HostConfig=host(Binds=[f"{name}:/v:nocopy"]))
        mount["VolumeOptions"] = {"Subpath": "deep"}
    script = "cat /etc/hostname; readlink /etc/mtab; ls /etc/passwd; touch /etc/x 2>/dev/null || echo ro"
    for _ in range(2):
        said = daemon.shell(script, Hostname="me", HostConfig=host(Mounts=[mount]))
        assert said.split("\n") == ["me", "/proc/mounts", "/etc/passwd", "ro"]
    script = f"cd /v{place}; stat -c '%n %a %u:%g %s' hostname hosts resolv.conf"
    said = daemon.shell(script, HostConfig=host(Binds=[f"{name}:/v"]))
    assert said.split("\n") == [f"{each} 755 0:0 0" for each in ("hostname", "hosts", "resolv.conf")]


def test_a_volume_has_the_places_of_the_engines_mounts_empty(daemon, busybox, volume):
    """As dockerd fills it: also where the image has contents in one of them, or no /etc."""
    base = rootfs.busybox()
    with open(rootfs.program(), "rb") as source:
        bare = rootfs.archive([("bin/sh", 0o755, source.read())])
    own = base[: archive_end(base)] + rootfs.archive([("etc/hosts", 0o640, b"of the image\n")])
    for archive in (own, bare):
        daemon.import_image(archive, "etc:latest", ())
        name = volume()
        mount = {"Type": "volume", "Source": name, "Target": "/etc", "ReadOnly": True}
        daemon.run("/bin/sh", "-c", ":", Image="etc", HostConfig=host(Mounts=[mount]))
        script = "stat -c '%a %s' /v/hosts; stat -c %s /v/hostname; readlink /v/mtab; ls /dev_"
        mounts = [{"Type": "volume", "Source": volume(), "Target": "/dev"}]
        daemon.remove(daemon.create("/bin/sh", Image="etc", HostConfig=host(Mounts=mounts)))
        binds = [f"{name}:/v", f"{mounts[0]['Source']}:/dev_"]
        said = daemon.shell(script, HostConfig=host(Binds=binds))
        assert said.split("\n") == ["755 0", "0", "/proc/mounts", "console", "pts", "shm"]
        daemon.request("DELETE", "/images/etc?force=1")


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


def part_of(name: str, subpath: str, **options: object) -> dict:
    """A mount of a part of a volume at /data."""
    return {"Type": "volume", "Source": name, "Target": "/data", "VolumeOptions": {"Subpath": subpath, **options}}


@pytest.mark.parametrize("kind", ["plain", "bound"])
def test_a_part_of_a_volume_is_filled_from_the_image(daemon, filled, volume, tmp_path, kind):
    """As a volume is: only where it is empty, and unless it is not to be; the rest of the volume is left alone."""
    bound = {"DriverOpts": {"type": "none", "o": "bind", "device": str(tmp_path)}} if kind == "bound" else {}
    name = volume(**bound)
    made = "mkdir -p /v/part /v/other /v/full; touch /v/full/mine; ln -s part /v/link; ln -s / /v/out; touch /v/file"
    daemon.shell(made, HostConfig=host(Binds=[f"{name}:/v"]))
    says = "stat -c %a /data; ls /data"
    assert daemon.shell(says, Image=filled, HostConfig=host(Mounts=[part_of(name, "full")])).split() == ["755", "mine"]
    nothing = part_of(name, "other", NoCopy=True)
    assert daemon.shell(says, Image=filled, HostConfig=host(Mounts=[nothing])).split() == ["755"]
    for subpath in ("part", "link"):
        said = daemon.shell(says, Image=filled, HostConfig=host(Mounts=[part_of(name, subpath)]))
        assert said.split() == ["1770", "deeper", "file", "link"]
    assert daemon.shell("cd /v; ls; ls other", HostConfig=host(Binds=[f"{name}:/v"])).split() == [
        *("file", "full", "link", "other", "out", "part")
    ]
    for subpath, status, words in (
        ("out", 400, "failed to populate volume: path concatenation escapes the base directory"),
        ("nope", 404, "cannot access path /"),
    ):
        answer = refused(daemon, host(Mounts=[part_of(name, subpath)]), image=filled)
        assert answer[0] == status and answer[1].startswith(words), answer


def test_a_subpath_that_is_not_there_is_an_error(daemon, busybox, volume):
    """And the error names the first part of it that is missing."""
    name = volume()
    daemon.shell("mkdir /v/there; touch /v/file", HostConfig=host(Binds=[f"{name}:/v"]))
    top, gone = daemon.request("GET", f"/volumes/{name}").json()["Mountpoint"], "no such file or directory"
    through_a_file = (500, f'error while resolving symlinks in combined path "{top}/file/x": not a directory')
    for subpath, expected in (
        ("nope", (404, f"cannot access path {top}/nope: lstat {top}/nope: {gone}")),
        ("there/nope/deep", (404, f"cannot access path {top}/there/nope/deep: lstat {top}/there/nope: {gone}")),
        ("file/x", through_a_file),
    ):
        mount = {"Type": "volume", "Source": name, "Target": "/w", "VolumeOptions": {"Subpath": subpath}}
        assert tuple(refused(daemon, host(Mounts=[mount]))) == expected


def test_a_subpath_whose_links_lead_out_of_the_volume_is_refused(daemon, busybox, volume):
    """A link that is absolute leads out too, as it would on the host."""
    name = volume()
    script = "mkdir /v/a; ln -s / /v/a/top; ln -s top /v/a/bad; ln -s ../a /v/a/good; echo x > /v/a/file"
    daemon.shell(script, HostConfig=host(Binds=[f"{name}:/v"]))
    mount = {"Type": "volume", "Source": name, "Target": "/w", "VolumeOptions": {"Subpath": "a/good"}}
    assert daemon.shell("cat /w/file", HostConfig=host(Mounts=[mount])) == "x"
    for subpath in ("a/top", "a/bad", "a/top/etc"):
        mount["VolumeOptions"] = {"Subpath": subpath}
        status, text = refused(daemon, host(Mounts=[mount]))
        assert status == 400 and text.startswith("path concatenation escapes the base directory, base: /"), text
        assert text.endswith(f", subpath: {subpath}")


def test_a_volume_whose_place_a_tmpfs_takes_is_not_made(daemon, busybox, container):
    """Neither that of the image, nor that of the container; HostConfig.Tmpfs and Mounts count alike."""
    changes = (*rootfs.CHANGES, "VOLUME /of-image /of-mount /stays")
    daemon.import_image(rootfs.busybox(), "with-volumes:1", changes)
    asked = host(Tmpfs={"/of-image": "", "/of-own": ""}, Mounts=[{"Type": "tmpfs", "Target": "/of-mount"}])
    before = names(daemon)
    script = "grep -c '^tmpfs /of-' /proc/mounts"
    one = container("sh", "-c", script, Image="with-volumes:1", Volumes={"/of-own/": {}}, HostConfig=asked, Tty=True)
    shown = daemon.inspect(one)["Mounts"]
    assert [point["Destination"] for point in shown if point["Type"] == "volume"] == ["/stays"]
    assert len(names(daemon) - before) == 1
    daemon.begin(one)
    assert daemon.wait(one) == 0 and daemon.logs(one) == b"3\r\n"


def test_an_image_is_mounted_twice(daemon, busybox, container):
    mounts = [
        {"Type": "image", "Source": "busybox", "Target": "/one"},
        {"Type": "image", "Source": "busybox", "Target": "/two", "ImageOptions": {"Subpath": "bin"}},
        {"Type": "image", "Source": "busybox", "Target": "/three"},
    ]
    script = "test -e /one/bin/busybox && test -e /two/busybox && test -e /three/bin/busybox && touch /three/x"
    assert "Read-only file system" in daemon.shell(f"{script} 2>&1 || true", HostConfig=host(Mounts=mounts))


def test_a_part_of_an_image_whose_links_lead_out_of_it_is_refused(daemon, busybox, container):
    one = container("sh", "-c", "mkdir /a; ln -s / /a/top; ln -s ../../.. /a/up; ln -s ../a /a/good; echo x > /a/file")
    daemon.begin(one)
    assert daemon.wait(one) == 0
    assert daemon.request("POST", f"/commit?container={one}&repo=with-links&tag=1").status == 201
    mount = {"Type": "image", "Source": "with-links:1", "Target": "/w", "ImageOptions": {"Subpath": "a/good"}}
    assert daemon.shell("cat /w/file", HostConfig=host(Mounts=[mount])) == "x"
    for subpath in ("a/top", "a/top/etc", "a/up"):
        mount["ImageOptions"] = {"Subpath": subpath}
        status, text = refused(daemon, host(Mounts=[mount]))
        assert status == 400 and text.startswith("path concatenation escapes the base directory, base: /"), text
        assert text.endswith(f", subpath: {subpath}")


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


@pytest.mark.parametrize("winner", ["volume", "bind", "tmpfs", "mount"])
def test_a_volume_that_lost_its_path_to_another_is_not_in_use(daemon, busybox, volume, container, source, winner):
    """Of two containers in VolumesFrom the later one counts; the volume of the earlier one can go with that."""
    losing, other = volume(), volume()
    first = container("true", HostConfig=host(Binds=[f"{losing}:/v"]))
    asked = {
        "volume": host(Binds=[f"{other}:/v"]),
        "bind": host(Binds=[f"{source}:/v"]),
        "tmpfs": host(Mounts=[{"Type": "tmpfs", "Target": "/v"}]),
        "mount": host(),
    }[winner]
    second = container("true", HostConfig=asked)
    more = host(Mounts=[{"Type": "volume", "Source": other, "Target": "/v"}]) if winner == "mount" else host()
    more["VolumesFrom"] = [first, second]
    third = daemon.create("true", HostConfig=more)
    assert [point["Destination"] for point in daemon.inspect(third)["Mounts"]] == ["/v"]
    daemon.request("DELETE", f"/containers/{first}")
    assert daemon.request("DELETE", f"/volumes/{losing}").status == 204
    daemon.remove(third)


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
    said = daemon.shell(
        "until [ -e /w/done ]; do sleep 0.02; done; cat /w/x; touch /w/y", HostConfig=host(Binds=[f"{name}:/w"])
    )
    assert said == "here"


def test_a_volume_in_memory_can_have_a_subpath_and_be_read_only(daemon, busybox, volume, container):
    name = volume(DriverOpts={"type": "tmpfs", "device": "tmpfs"})
    first = container(
        "sh", "-c", "mkdir /v/a; touch /v/a/b; touch /v/done; sleep 60", HostConfig=host(Binds=[f"{name}:/v"])
    )
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


def test_a_part_of_an_image_whose_links_lead_out_is_refused(daemon, filled, busybox):
    for subpath in ("out", "away", "top", "data/link/../../../.."):
        mount = {"Type": "image", "Source": "filled", "Target": "/i", "ImageOptions": {"Subpath": subpath}}
        status, text = refused(daemon, host(Mounts=[mount]))
        assert status in (400, 500) and "passwd" not in text, text
    mount["ImageOptions"] = {"Subpath": "away"}
    status, text = refused(daemon, host(Mounts=[mount]))
    assert status == 400 and text.startswith("path concatenation escapes the base directory")


def test_one_image_is_mounted_twice(daemon, filled, busybox):
    part = {"Type": "image", "Source": "filled", "Target": "/j", "ImageOptions": {"Subpath": "data"}}
    mounts = [{"Type": "image", "Source": "filled", "Target": place} for place in ("/i", "/k")]
    said = daemon.shell("cat /i/data/file /j/file /k/data/file", HostConfig=host(Mounts=[*mounts, part]))
    assert said == "\n".join(["of the image"] * 3)


def test_a_mounted_image_keeps_its_layers_while_the_container_is_there(daemon, busybox, container):
    with_volume(daemon, "kept")
    identifier = container(
        "cat", "/i/data/file", HostConfig=host(Mounts=[{"Type": "image", "Source": "kept", "Target": "/i"}])
    )
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


def test_the_files_of_a_stopped_container_include_its_volumes_and_images(daemon, filled, volume, container):
    name = volume()
    daemon.shell("mkdir /v/part; echo kept > /v/part/file", HostConfig=host(Binds=[f"{name}:/v"]))
    part = {"Type": "volume", "Source": name, "Target": "/p", "VolumeOptions": {"Subpath": "part"}}
    image = {"Type": "image", "Source": "filled", "Target": "/i", "ImageOptions": {"Subpath": "data"}}
    identifier = container("true", HostConfig=host(Binds=[f"{name}:/v:ro"], Mounts=[part, image]))
    for path, contents in (("/v/part/file", b"kept\n"), ("/p/file", b"kept\n"), ("/i/file", b"of the image\n")):
        answer = daemon.request("GET", f"/containers/{identifier}/archive?path={path}", checked=False)
        assert answer.status == 200 and contents in answer.body, path


def test_where_layers_are_copied_volumes_are_filled_and_images_mounted_all_the_same(world):
    alone = world.daemon()
    alone.copies_layers()
    with running(alone):
        alone.import_busybox()
        with_volume(alone)
        mount = {"Type": "image", "Source": "filled", "Target": "/i", "ImageOptions": {"Subpath": "data"}}
        script = "cat /data/file /i/file; touch /i/x 2>/dev/null || echo ro"
        said = alone.shell(script, Image="filled", HostConfig=host(Mounts=[mount]))
        assert said == "of the image\nof the image\nro"
