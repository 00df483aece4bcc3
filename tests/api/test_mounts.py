"""What a container asks to have mounted, as it is seen from inside and as the API tells of it."""

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator

import pytest

from tests.api.mounting import bind, host, refused, source, volume
from tests.harness import rootfs
from tests.harness.listening import until

__all__ = ["source", "volume"]


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


@pytest.mark.parametrize(("target", "words"), [("gone", "bind source path does not exist: {}"), ("link", "stat {}: ")])
def test_a_source_that_is_a_link_to_nothing_is_refused_at_create(daemon, busybox, world, container, target, words):
    link = world.directory() / "link"
    link.symlink_to(target)
    body = {"Image": "busybox", "HostConfig": host(Mounts=[bind(link, "/in")])}
    answer = daemon.request("POST", "/containers/create", body)
    assert answer.status == 400 and answer.message.startswith(
        f'invalid mount config for type "bind": {words.format(link)}'
    )
    status, text = refused(daemon, host(Binds=[f"{link}:/in"]))
    assert status == 500 and text.startswith(f"error while creating mount source path '{link}': mkdir {link}: ")
    (link.parent / "there").touch()
    link.unlink()
    link.symlink_to("there")
    container("true", HostConfig=host(Mounts=[bind(link, "/in")]))


def test_a_source_that_cannot_be_looked_at_is_told_as_by_docker(daemon, busybox, world):
    file = world.directory() / "file"
    file.touch()
    status, text = refused(daemon, host(Mounts=[bind(file / "in", "/in")]))
    assert (status, text) == (400, f'invalid mount config for type "bind": stat {file}/in: not a directory')


def test_a_directory_on_a_file_is_the_clients_mistake(daemon, busybox, source):
    status, text = refused(daemon, host(Binds=[f"{source}:/etc/passwd"]))
    assert status == 400 and "not a directory" in text
    assert text.endswith("Check if the specified host path exists and is the expected type")
    status, text = refused(daemon, host(Binds=[f"{source}/file:/etc"]))
    assert status == 400 and "not a directory" in text


@pytest.mark.parametrize("place", ["etc/hostname", "etc/hosts", "etc/resolv.conf"])
def test_a_directory_of_the_image_where_the_engine_mounts_a_file_is_a_mistake_too(daemon, busybox, place):
    """As dockerd has it of each failure with these words, whoever asked for the mount."""
    made = io.BytesIO(rootfs.busybox())
    with tarfile.open(fileobj=made, mode="a") as archive:
        member = tarfile.TarInfo(place)
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(member)
    image = daemon.import_image(made.getvalue(), "directory-there", rootfs.CHANGES)
    identifier = daemon.create("true", Image=image)
    answer = daemon.request("POST", f"/containers/{identifier}/start")
    assert answer.status == 400 and "not a directory: Are you trying to mount a directory onto a file" in answer.message
    assert daemon.inspect(identifier)["State"]["ExitCode"] == 127
    daemon.remove(identifier)
    daemon.request("DELETE", f"/images/{image}?force=1")


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
    assert daemon.inspect(identifier)["HostsPath"] == ""
    daemon.begin(identifier)
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
    script = (
        "touch /in/a /run/b /dev/shm/c; touch /x 2>/dev/null || echo ro; echo x 2>/dev/null > /etc/hosts || echo ro"
    )
    assert daemon.shell(script, HostConfig=asked) == "ro\nro"


# Tmpfs


def test_a_tmpfs_has_dockers_flags_and_what_was_asked(daemon, busybox):
    asked = host(Tmpfs={"/t": "size=1m,mode=700,exec", "/tmp": ""})
    said = daemon.shell("grep -E ' /(t|tmp) ' /proc/mounts; stat -c %a /t /tmp", HostConfig=asked)
    assert re.search(r"^tmpfs /t tmpfs rw,nosuid,nodev,relatime,size=1024k,mode=700", said, re.MULTILINE), said
    assert re.search(r"^tmpfs /tmp tmpfs rw,nosuid,nodev,noexec,relatime", said, re.MULTILINE), said
    assert said.endswith("700\n1777")


def test_of_two_file_systems_in_memory_the_one_of_mounts_is_seen(daemon, busybox):
    """At one place; the other one is below it."""
    mount = {"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": 2 << 20}}
    asked = host(Mounts=[mount], Tmpfs={"/t": "size=1m"})
    said = daemon.shell("cat /proc/mounts; df -k /t", HostConfig=asked)
    assert re.findall(r"^tmpfs /t tmpfs \S+size=(\d+)k", said, re.MULTILINE) == ["1024", "2048"], said
    assert re.search(r"^tmpfs +2048 .* /t$", said, re.MULTILINE), said


def test_a_tmpfs_of_mounts_has_size_mode_and_options(daemon, busybox):
    options = {"SizeBytes": 2 << 20, "Mode": 0o711, "Options": [["exec"]]}
    asked = host(Mounts=[{"Type": "tmpfs", "Target": "/t", "TmpfsOptions": options}])
    said = daemon.shell("grep ' /t ' /proc/mounts; stat -c %a /t", HostConfig=asked)
    assert "rw,nosuid,nodev,relatime,size=2048k,mode=711" in said and said.endswith("\n711")
    readonly = host(Mounts=[{"Type": "tmpfs", "Target": "/t", "ReadOnly": True}])
    assert " ro," in daemon.shell("grep ' /t ' /proc/mounts", HostConfig=readonly)


@pytest.mark.parametrize(
    ("options", "text"), [("size=abc", "data=size=abc: invalid argument"), ("nope", 'invalid tmpfs option "nope"')]
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


@pytest.mark.parametrize("form", ["binds", "mounts"])
def test_clients_of_before_1_44_have_only_the_bind_itself_read_only(daemon, busybox, source, mounted, form):
    mounted("-t", "tmpfs", "below", str(source / "deeper"))
    asked = {"Binds": [f"{source}:/in:ro"]} if form == "binds" else {"Mounts": [bind(source, "/in", ReadOnly=True)]}
    body = {"Image": "busybox", "Cmd": ["sh", "-c", "touch /in/x; touch /in/deeper/y && echo written"]}
    for version, writable in (("v1.43", True), ("v1.44", False)):
        one = daemon.request("POST", f"/{version}/containers/create", {**body, "HostConfig": host(**asked)}).json()[
            "Id"
        ]
        daemon.begin(one)
        daemon.wait(one)
        logs = daemon.logs(one)
        assert (b"written\n" in logs) is writable and b"/in/x: Read-only" in logs
        daemon.remove(one)


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
def test_a_mount_of_the_hosts_comes_into_a_slave_or_shared_bind(
    daemon, busybox, container, source, mounted, mode, seen
):
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
    subprocess.run(["sh", "-c", f"until [ -e {source}/done ]; do sleep 0.02; done"], timeout=60, check=True)
    place = f"{source}/deeper"
    found = place in world.namespaces.mounts()
    if found:
        subprocess.run(world.namespaces.command(["umount", place]), check=True, timeout=20)
    assert found is seen


# A daemon that ends


@pytest.mark.parametrize("how", ["restart", "kill9"])
def test_mounts_and_volumes_outlive_the_daemon(own_daemon, source, how):
    script = "echo run >> /v/log; sleep 60"
    asked = host(Binds=[f"{source}:/b", "kept:/v"], Mounts=[{"Type": "volume", "Target": "/a"}])
    identifier = own_daemon.create("sh", "-c", script, HostConfig=asked)
    own_daemon.begin(identifier)
    log = own_daemon.data_root / "volumes/kept/_data/log"
    until(lambda: log.exists() and log.read_text() == "run\n")
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
    until(lambda: log.read_text() == "run\nrun\n")
    assert own_daemon.shell("cat /v/log", HostConfig=host(Binds=["kept:/v"])) == "run\nrun"
    own_daemon.remove(identifier)
    names = [each["Name"] for each in own_daemon.request("GET", "/volumes").json()["Volumes"]]
    assert names == ["kept"] and own_daemon.request("DELETE", "/volumes/kept").status == 204
