"""GET /system/df: what is on the disk, how much of it, and how much could be had back."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.listening import until

NAMES = {
    "image": ("Images", "ImageUsage"),
    "container": ("Containers", "ContainerUsage"),
    "volume": ("Volumes", "VolumeUsage"),
    "build-cache": ("BuildCache", "BuildCacheUsage"),
}
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def full(world) -> Iterator[Daemon]:
    """A daemon with two images that share a layer and one alone, two containers, three volumes and a build's cache."""
    with running(world.daemon()) as daemon:
        fill(daemon)
        yield daemon


def fill(daemon: Daemon) -> None:
    """What `full` says."""
    daemon.import_busybox()
    host = {"NetworkMode": "none"}
    writer = daemon.create("sh", "-c", "head -c 1048576 /dev/urandom > /big", name="writer")
    daemon.begin(writer)
    daemon.wait(writer)
    daemon.request("POST", f"/commit?container={writer}&repo=upon")
    daemon.import_image(rootfs.archive([("alone", 0o644, os.urandom(50_000))]), "alone")
    for name, options in (("used", None), ("idle", None), ("elsewhere", {"type": "tmpfs", "device": "tmpfs"})):
        daemon.request("POST", "/volumes/create", {"Name": name, "DriverOpts": options})
    daemon.shell("head -c 3000 /dev/zero > /v/f; ln /v/f /v/g", HostConfig={**host, "Binds": ["idle:/v"]})
    runner = daemon.create(
        "sh", "-c", "echo y > /own; echo x > /v/f; sleep 600", name="runner", HostConfig={**host, "Binds": ["used:/v"]}
    )
    daemon.begin(runner)
    context = rootfs.archive([("Dockerfile", 0o644, b"FROM busybox\nRUN echo built > /built\n")])
    built = daemon.request("POST", "/build?t=built", context, {"Content-Type": "application/x-tar"})
    assert built.status == 200 and "error" not in built.lines[-1]
    written = daemon.data_root / "volumes/used/_data/f"
    until(lambda: written.exists() and written.stat().st_size)


def usage(daemon: Daemon, query: str = "", version: str = "1.54") -> dict:
    """What df answers."""
    answer = daemon.request("GET", f"/v{version}/system/df{query}")
    assert answer.status == 200, answer
    return answer.json()


def on_disk(path: Path) -> int:
    """Bytes that the files and directories below a path take, hard links once."""
    seen = {}
    for above, directories, files in os.walk(path):
        for name in (*directories, *files):
            status = os.lstat(f"{above}/{name}")
            seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def test_images_take_what_is_on_the_disk(full: Daemon) -> None:
    found = usage(full, "?type=image&verbose=1")["ImageUsage"]
    images = {image["RepoTags"][0]: image for image in found["Items"] if image["RepoTags"]}
    assert images.keys() == {"busybox:latest", "upon:latest", "alone:latest", "built:latest"}
    blobs = sum(os.stat(entry).st_size for entry in os.scandir(full.data_root / "blobs/sha256"))
    assert found["TotalSize"] == pytest.approx(blobs + on_disk(full.data_root / "layers"), rel=0.02)
    unique = {name: image["Size"] - image["SharedSize"] for name, image in images.items()}
    assert unique["upon:latest"] > 2 * MEGABYTE, "a layer and its blob, that nothing makes smaller"
    assert images["alone:latest"]["SharedSize"] == 0 < unique["alone:latest"] < 200_000
    assert 0 < unique["busybox:latest"] < 4096, "its manifest and config alone"
    assert images["busybox:latest"]["SharedSize"] == images["upon:latest"]["SharedSize"]
    assert found["TotalSize"] == images["busybox:latest"]["SharedSize"] + sum(unique.values())


def test_what_images_would_set_free_is_what_no_container_stands_on(full: Daemon) -> None:
    found = usage(full, "?type=image&verbose=1")["ImageUsage"]
    images = {image["RepoTags"][0]: image for image in found["Items"]}
    assert {name for name, image in images.items() if image["Containers"]} == {"busybox:latest"}
    assert images["busybox:latest"]["Containers"] == 2
    assert (found["ActiveCount"], found["TotalCount"]) == (1, 4)
    assert found["Reclaimable"] == found["TotalSize"] - images["busybox:latest"]["Size"]


def test_what_is_said_to_be_free_becomes_free(full: Daemon) -> None:
    """By a prune of everything, on a daemon's images alone; the rest of this file needs none of them."""
    extra = rootfs.archive([("extra", 0o644, os.urandom(30_000))])
    full.import_image(extra, "extra:one")
    before = usage(full, "?type=image&verbose=1")["ImageUsage"]
    full.request("DELETE", "/images/extra:one")
    after = usage(full, "?type=image&verbose=1")["ImageUsage"]
    assert before["TotalSize"] - after["TotalSize"] == before["Reclaimable"] - after["Reclaimable"] > 30_000


def test_containers_take_what_they_wrote(full: Daemon) -> None:
    found = usage(full, "?type=container&verbose=1")["ContainerUsage"]
    sizes = {container["Names"][0]: container["SizeRw"] for container in found["Items"]}
    assert MEGABYTE <= sizes["/writer"] < MEGABYTE + 65536 and 0 < sizes["/runner"] < 65536
    assert found["TotalSize"] == sum(sizes.values()) and found["Reclaimable"] == sizes["/writer"]
    assert (found["ActiveCount"], found["TotalCount"]) == (1, 2)
    assert all(container["SizeRootFs"] > MEGABYTE for container in found["Items"])


def test_volumes_take_what_is_in_them_and_those_elsewhere_nothing(full: Daemon) -> None:
    found = usage(full, "?type=volume&verbose=1")["VolumeUsage"]
    assert {volume["Name"]: volume["UsageData"] for volume in found["Items"]} == {
        "idle": {"RefCount": 0, "Size": 3000},
        "used": {"RefCount": 1, "Size": 2},
    }
    sums = {key: value for key, value in found.items() if key != "Items"}
    assert sums == {"ActiveCount": 1, "Reclaimable": 3000, "TotalCount": 2, "TotalSize": 3002}


def test_a_build_leaves_a_step(full: Daemon) -> None:
    found = usage(full, "?type=build-cache&verbose=1")["BuildCacheUsage"]
    steps = [item["Description"] for item in found["Items"]]
    assert found["TotalCount"] == len(steps) > 0 and any("echo built" in step for step in steps)


@pytest.mark.parametrize("kind", NAMES)
def test_each_kind_alone_in_each_form(full: Daemon, kind: str) -> None:
    older, newer = NAMES[kind]
    newest = usage(full, f"?type={kind}&verbose=yes")
    assert newest.keys() == {newer} and newest[newer]["Items"]
    both = usage(full, f"?type={kind}&verbose=0")
    for answer in (newest, both):
        for each in answer[newer]["Items"]:
            each.pop("Status", None)  # of a container: for how many seconds it is up
    for each in both.get(older) or ():
        each.pop("Status", None)
    assert both == {**both, **newest}
    assert both.keys() == {older, newer, *(["LayersSize"] if kind == "image" else [])}
    assert both[older] == both[newer]["Items"]


def test_several_kinds_and_kinds_that_are_none(full: Daemon) -> None:
    assert usage(full, "?type=volume&type=image&verbose=1").keys() == {"ImageUsage", "VolumeUsage"}
    assert usage(full, "?verbose=x").keys() == {new for _, new in NAMES.values()}
    for query, text in (
        ("?type=nope", "unknown object type: nope"),
        ("?type=", "unknown object type: "),
    ):
        answer = full.request("GET", f"/system/df{query}")
        assert (answer.status, answer.message) == (400, text)


def test_older_clients_see_lists(full: Daemon) -> None:
    lists = {"LayersSize", "Images", "Containers", "Volumes", "BuildCache"}
    shown = usage(full, "?verbose=1", "1.51")
    assert shown.keys() == lists and shown["LayersSize"] == usage(full)["LayersSize"]
    assert any(image["Containers"] == 2 for image in usage(full, "", "1.43")["Images"])
    alone = usage(full, "?type=volume", "1.42")
    assert alone.keys() == {"Volumes"} and len(alone["Volumes"]) == 2
    oldest = usage(full, f"?type={quote('no such')}", "1.41")
    assert oldest.keys() == lists and oldest["Images"][0]["VirtualSize"]
