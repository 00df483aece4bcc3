"""`engine migrate`: what Debian's dockerd has left is there for a daemon of this engine; the source is as it was."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness import frames, rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.others import Dockerd

pytestmark = pytest.mark.root

CHANGES = [word for change in (*rootfs.CHANGES, "LABEL kept=yes") for word in ("--change", change)]
HOST = {"NetworkMode": "none"}
NO_NETWORK = ["--network", "none"]
NETWORK = "10.219.7.0/24"


class Left(NamedTuple):
    """What dockerd has left.

    root: its data root; ids: of its containers, by name; log, local: what two of them have said, by log drivers
    """

    root: Path
    ids: dict[str, str]
    log: bytes
    local: bytes


@pytest.fixture(scope="module")
def left(world: World) -> Left:
    """Images, volumes, a network and containers of a dockerd that has ended."""
    place = world.directory() / "o"
    with Dockerd(place) as dockerd:
        (place / "base.tar").write_bytes(rootfs.busybox())
        dockerd.run("import", *CHANGES, str(place / "base.tar"), "busybox:latest")
        dockerd.run("run", "--name", "step", "--network", "none", "busybox", "sh", "-c", STEP)
        dockerd.run("commit", "step", "layered:1")
        dockerd.run("rm", "step")
        dockerd.run("volume", "create", "--label", "of=them", "data")
        dockerd.run("volume", "create", "--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=size=1m", "memory")
        dockerd.run("network", "create", "--subnet", NETWORK, "--label", "net=yes", "--internal", "theirs")
        ids = {
            "ended": dockerd.run("create", "--name", "ended", *ENDED, "layered:1", "sh", "-c", SCRIPT),
            "made": dockerd.run("create", "--name", "made", *IN_NETWORK, *SLEEPS),
            "again": dockerd.run("create", "--name", "again", "--network", "none", "--restart", "always", *SLEEPS),
        }
        dockerd.run("create", "--name", "local", *LOCAL, *NO_NETWORK, "busybox", "sh", "-c", LINES)
        dockerd.run("start", "--attach", "local")
        local = dockerd.run("logs", "--timestamps", "local")
        assert dockerd.run("start", "--attach", "ended") == b"out\nkept\n"
        log = dockerd.run("logs", "--timestamps", "ended")
        dockerd.run("start", "again")
    return Left(place / "d", {name: each.decode().strip() for name, each in ids.items()}, log, local)


STEP = "rm /bin/ls; rm -r /etc; mkdir /etc; echo root:x:0:0::/:/bin/sh >/etc/passwd; ln /etc/passwd /etc/linked"
SCRIPT = "echo out; echo kept >/data/file; cat /data/file; echo own >/own; rm /etc/linked"
ENDED = ["--network", "none", "--volume", "data:/data", "--volume", "/nameless", "--env", "A=b", "--label", "l=m"]
LOCAL = ["--log-driver", "local", "--log-opt", "max-size=20k", "--log-opt", "max-file=5"]
LINES = "i=0; while [ $i -lt 1000 ]; do echo line $i of a log that is rotated and compressed; i=$((i+1)); done"
IN_NETWORK = ["--network", "theirs", "--ip", "10.219.7.9"]
SLEEPS = ["busybox", "sleep", "600"]


def migrate(source: Path, daemon: Daemon, *more: str) -> subprocess.CompletedProcess:
    """What the command says."""
    roots = ["--data-root", str(daemon.data_root), "--exec-root", str(daemon.exec_root), "--config-file", "/dev/null"]
    command = [sys.executable, "-m", "engine", "migrate", "--from", str(source), *roots, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=daemon.environment)


def said(daemon: Daemon, container: str, query: str) -> bytes:
    """The log of a container without a terminal."""
    return frames.stdout(daemon.logs(container, query))


def digest(root: Path) -> dict[str, tuple]:
    """All that the root's files are, but how many names they have."""
    found = {}
    for place, _, names in os.walk(root):
        for path in [Path(place), *(Path(place, name) for name in names)]:
            one = path.lstat()
            whole = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(one.st_mode) else ""
            target = os.readlink(path) if stat.S_ISLNK(one.st_mode) else ""
            found[str(path)] = (one.st_mode, one.st_uid, one.st_gid, one.st_size, one.st_mtime_ns, whole, target)
    return found


@pytest.fixture(scope="module")
def moved(world: World, left: Left) -> Iterator[tuple[Daemon, str]]:
    """A daemon that has it all now, and what the command has said."""
    daemon, before = world.daemon(), digest(left.root)
    done = migrate(left.root, daemon)
    assert done.returncode == 0, done.stderr
    assert digest(left.root) == before
    with running(daemon):
        yield daemon, done.stdout


def test_nothing_is_left_behind(moved: tuple[Daemon, str]) -> None:
    """Progress, the sums, and no line of what was not taken."""
    lines = moved[1].splitlines()
    assert "image layered:1 (2 of 2) ..." in lines or "image layered:1 (1 of 2) ..." in lines
    assert {"images: 2 brought over, 0 there already", "volumes: 3 brought over, 0 there already"} <= set(lines)
    assert {"networks: 1 brought over, 0 there already", "containers: 4 brought over, 0 there already"} <= set(lines)
    assert "NOT TAKEN" not in moved[1]


def test_images_run_and_are_saved(moved: tuple[Daemon, str]) -> None:
    """With their deletions, which are whiteouts and opaque directories, and their settings."""
    daemon, _ = moved
    assert daemon.request("GET", "/images/layered:1/json").json()["Config"]["Labels"] == {"kept": "yes"}
    script = "test -e /bin/ls || echo gone; echo /etc/*; stat -c %h /etc/passwd"
    shown = daemon.shell(script, Image="layered:1", HostConfig=HOST)
    assert shown.split("\n")[0] == "gone" and "/etc/linked" in shown and "/etc/group" not in shown
    answer = daemon.request("GET", "/images/layered:1/get", checked=False)
    assert answer.status == 200 and len(answer.body) > 100_000
    daemon.request("DELETE", "/images/layered:1?noprune=1", checked=False)
    loaded = daemon.request("POST", "/images/load", answer.body, {"Content-Type": "application/x-tar"})
    assert "error" not in loaded.lines[-1]


def test_layers_take_no_second_room(moved: tuple[Daemon, str], left: Left) -> None:
    """Their files are those of dockerd, under a second name."""
    theirs = {path.stat().st_ino for path in (left.root / "overlay2").glob("*/diff/bin/busybox")}
    ours = {path.stat().st_ino for path in (moved[0].data_root / "layers").glob("*/bin/busybox")}
    assert ours and ours <= theirs


def test_volumes_have_their_labels_options_and_files(moved: tuple[Daemon, str]) -> None:
    """And the files are not those of the source, which a container could otherwise change."""
    daemon, _ = moved
    shown = daemon.request("GET", "/volumes/data").json()
    assert shown["Labels"] == {"of": "them"}
    options = daemon.request("GET", "/volumes/memory").json()["Options"]
    assert options == {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}
    file = daemon.data_root / "volumes/data/_data/file"
    assert file.read_text() == "kept\n" and file.stat().st_nlink == 1


def test_networks_have_their_subnets(moved: tuple[Daemon, str]) -> None:
    shown = moved[0].request("GET", "/networks/theirs").json()
    assert (shown["Driver"], shown["Internal"], shown["Labels"]) == ("bridge", True, {"net": "yes"})
    assert shown["IPAM"]["Config"][0]["Subnet"] == NETWORK


def test_a_container_has_its_settings_its_end_its_files_and_its_log(moved: tuple[Daemon, str], left: Left) -> None:
    daemon, _ = moved
    shown = daemon.inspect("ended")
    assert shown["Id"] == left.ids["ended"]
    assert "A=b" in shown["Config"]["Env"] and shown["Config"]["Labels"]["l"] == "m"
    assert (shown["State"]["Status"], shown["State"]["ExitCode"]) == ("exited", 0)
    assert shown["State"]["StartedAt"] > "2020"
    assert {each["Destination"] for each in shown["Mounts"]} == {"/data", "/nameless"}
    assert said(daemon, "ended", "stdout=1&timestamps=1") == left.log
    changes = {(each["Path"], each["Kind"]) for each in daemon.request("GET", "/containers/ended/changes").json()}
    assert {("/own", 1), ("/etc/linked", 2)} <= changes
    daemon.begin("ended")
    daemon.wait("ended")
    assert said(daemon, "ended", "stdout=1") == b"out\nkept\n" * 2


def test_a_log_of_the_driver_local_is_the_same_line_by_line(moved: tuple[Daemon, str], left: Left) -> None:
    """In another form, with its times; its older files were compressed."""
    assert len(left.local.splitlines()) > 500
    assert said(moved[0], "local", "stdout=1&timestamps=1") == left.local
    assert said(moved[0], "local", "stdout=1&tail=1").endswith(b"line 999 of a log that is rotated and compressed\n")


def test_a_container_in_a_network_starts_with_its_address(moved: tuple[Daemon, str]) -> None:
    daemon, _ = moved
    assert daemon.inspect("made")["State"]["Status"] == "created"
    daemon.begin("made")
    assert daemon.inspect("made")["NetworkSettings"]["Networks"]["theirs"]["IPAddress"] == "10.219.7.9"
    daemon.request("POST", "/containers/made/kill", checked=False)


def test_a_restart_policy_is_obeyed_by_the_first_daemon(moved: tuple[Daemon, str]) -> None:
    """The container ran when dockerd was stopped."""
    daemon, _ = moved
    assert daemon.inspect("again")["State"]["Running"]
    daemon.request("POST", "/containers/again/stop?t=0")


def test_a_second_run_takes_only_what_is_not_there(world: World, left: Left) -> None:
    """And what has another owner here stays that one's, which is told."""
    daemon = world.daemon()
    assert migrate(left.root, daemon).returncode == 0
    with running(daemon):
        daemon.remove("made")
        daemon.create("true", name="made")
        daemon.request("DELETE", "/volumes/memory")
        daemon.stop()
        done = migrate(left.root, daemon)
        assert done.returncode == 0, done.stderr
        assert {"images: 0 brought over, 2 there already", "volumes: 1 brought over, 2 there already"} <= set(
            done.stdout.splitlines()
        )
        assert "NOT TAKEN: container made: another container has its name here" in done.stdout
        daemon.start()
        busy = migrate(left.root, daemon)
        assert busy.returncode == 1 and "another daemon already runs on the data root" in busy.stderr


def test_a_root_that_a_dockerd_has_is_left_alone(world: World) -> None:
    place = world.directory() / "o"
    with Dockerd(place) as dockerd:
        dockerd.run("volume", "create", "some")
        done = migrate(place / "d", world.daemon())
    assert done.returncode == 1 and f"a dockerd runs on {place / 'd'}: stop it first" in done.stderr


def test_what_was_changed_by_a_stranger_is_not_taken(world: World, left: Left, tmp_path: Path) -> None:
    """Links that lead out, files that are not the image's, stores that are none: each is named, and the rest comes."""
    root = tmp_path / "d"
    subprocess.run(["cp", "--archive", str(left.root), str(root)], check=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("secret")
    shutil.rmtree(root / "volumes/data/_data")
    (root / "volumes/data/_data").symlink_to(tmp_path / "secret")
    (root / "network/files/local-kv.db").write_bytes(os.urandom(65536))
    for file in (root / "overlay2").glob("*/diff/etc/linked"):
        if file.is_file():  # it is a whiteout of the container's
            file.write_bytes(b"x" * file.stat().st_size)
    home = root / "containers" / left.ids["again"] / "hostconfig.json"
    home.write_text(json.dumps({**json.loads(home.read_text()), "PidMode": "weird"}))
    daemon = world.daemon()
    done = migrate(root, daemon)
    assert done.returncode == 0, done.stderr
    lacking = [line for line in done.stdout.splitlines() if line.startswith("NOT TAKEN: ")]
    assert any("volume data: volumes/data/_data is not what dockerd makes" in line for line in lacking), lacking
    assert any("the networks: it is no whole file of bbolt" in line for line in lacking)
    assert any("image layered:1: the files of its layer" in line for line in lacking)
    assert any("container again: invalid PID mode: weird" in line for line in lacking)
    assert any("container ended: its image" in line for line in lacking)
    assert not any(b"secret" in path.read_bytes() for path in daemon.data_root.rglob("file") if path.is_file())
    assert "images: 1 brought over, 0 there already" in done.stdout


class Stored(NamedTuple):
    """What is left where containerd's store has the images. digest: of the image; container: an id"""

    root: Path
    digest: str
    container: str


@pytest.fixture(scope="module")
def stored(world: World) -> Stored:
    """Where a newer dockerd would have put it: Debian's containerd 1.6 has made the image and the snapshots.

    The container is Debian's dockerd's. Of its records two fields are those of a newer one: the driver, and the image,
    which such a dockerd names by its digest. `ctr` says what that dockerd would say to containerd.
    """
    place = world.directory() / "o"
    with Dockerd(place) as dockerd:
        address = str(place / "e/containerd/containerd.sock")

        def ctr(*words: str) -> str:
            return ran("ctr", "--address", address, "--namespace", "moby", *words)

        def ran(*words: str) -> str:
            done = subprocess.run(dockerd.namespaces.command(list(words)), capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, (words, done.stderr)
            return done.stdout

        (place / "base.tar").write_bytes(rootfs.busybox())
        dockerd.run("import", *CHANGES, str(place / "base.tar"), "busybox:latest")
        dockerd.run("run", "--name", "step", "--network", "none", "busybox", "sh", "-c", STEP)
        dockerd.run("commit", "step", "stored:1")
        container = dockerd.run("create", "--name", "one", *NO_NETWORK, "busybox", "cat", "/own").decode().strip()
        dockerd.run("save", "--output", str(place / "out.tar"), "stored:1")
        dockerd.run("rm", "step")
        dockerd.run("rmi", "stored:1")
        ctr("images", "import", str(place / "out.tar"))
        digest = next(line.split()[2] for line in ctr("images", "list").splitlines() if "/stored:1" in line)
        chains = [line.split()[0] for line in ctr("snapshots", "list").splitlines()[1:] if "Committed" in line]
        top = next(each for each in chains if not any(each == line.split()[1] for line in _snapshots(ctr)))

        def prepared(key: str, parent: str) -> Path:
            ctr("snapshots", "prepare", key, parent)
            (upper,) = re.findall("upperdir=([^, ]+)", ctr("snapshots", "mounts", "/mnt", key))
            return Path(upper)

        # As dockerd's containerd.PrepareSnapshot: its init layer with places for mounts, and the container's own above.
        init = prepared(f"{container}-init-key", top)
        (init / "etc").mkdir()
        (init / "etc/resolv.conf").touch()
        (init / ".dockerenv").touch()
        ctr("snapshots", "commit", f"{container}-init", f"{container}-init-key")
        (prepared(container, f"{container}-init") / "own").write_text("of the container\n")
    record = place / "d/containers" / container / "config.v2.json"
    told = json.loads(record.read_text())
    record.write_text(json.dumps({**told, "Driver": "overlayfs", "Image": digest}))
    return Stored(place / "d", digest, container)


def _snapshots(ctr: Callable[..., str]) -> list[str]:
    return [line for line in ctr("snapshots", "list").splitlines()[1:] if len(line.split()) == 3]


def test_images_of_containerds_store_are_the_very_same(world: World, stored: Stored) -> None:
    """By their digest, with their names, blobs and layers under second names, and with a container's own files."""
    daemon, before = world.daemon(), digest(stored.root)
    done = migrate(stored.root, daemon)
    assert done.returncode == 0, done.stderr
    assert digest(stored.root) == before
    assert "NOT TAKEN" not in done.stdout, done.stdout
    with running(daemon):
        assert daemon.request("GET", "/images/stored:1/json").json()["Id"] == stored.digest
        assert daemon.shell("test -e /bin/ls || echo gone", Image="stored:1", HostConfig=HOST) == "gone"
        daemon.begin("one")
        daemon.wait("one")
        assert said(daemon, "one", "stdout=1") == b"of the container\n"
        theirs = stored.root / "containerd/daemon"
        blobs = {path.stat().st_ino for path in theirs.rglob("blobs/sha256/*")}
        assert (daemon.data_root / "blobs" / stored.digest.replace(":", "/")).stat().st_ino in blobs
        programs = {path.stat().st_ino for path in theirs.rglob("fs/bin/busybox")}
        layers = {path.stat().st_ino for path in (daemon.data_root / "layers").glob("*/bin/busybox")}
        assert layers & programs
    again = migrate(stored.root, daemon)
    assert "image stored:1: is there already" in again.stdout, again.stdout


def test_a_blob_that_is_another_one_is_not_taken(world: World, stored: Stored, tmp_path: Path) -> None:
    root = tmp_path / "d"
    subprocess.run(["cp", "--archive", str(stored.root), str(root)], check=True)
    (blobs,) = root.rglob("io.containerd.content.v1.content/blobs/sha256")
    for blob in blobs.iterdir():
        if b'"rootfs"' in blob.read_bytes()[:100_000]:
            blob.chmod(0o600)
            blob.write_bytes(blob.read_bytes()[:-1] + b" ")
    done = migrate(root, world.daemon(), "--containerd", str(root / "containerd/daemon"))
    assert done.returncode == 0, done.stderr
    assert "NOT TAKEN: image stored:1: the blob sha256:" in done.stdout and "is another one" in done.stdout
    assert "NOT TAKEN: container one: its image" in done.stdout
