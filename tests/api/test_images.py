"""Images without a registry: import, load, list, inspect, delete."""

import gzip
import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.api.archives import docker_archive, oci_archive, tar
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.listening import until
from tests.harness.registry import architecture

pytestmark = pytest.mark.usefixtures("busybox")

TAR = {"Content-Type": "application/x-tar"}


@pytest.fixture(autouse=True)
def only_busybox(daemon: Daemon) -> Iterator[None]:
    """Whatever image a test makes is taken away."""
    yield
    for image in daemon.request("GET", "/images/json").json():
        if "busybox:latest" not in (image["RepoTags"] or []):
            daemon.request("DELETE", f"/images/{image['Id']}?force=1", checked=False)


def load(daemon: Daemon, archive: bytes) -> list[dict]:
    """The lines of the answer."""
    answer = daemon.request("POST", "/images/load", archive, TAR)
    assert answer.status == 200, answer
    return answer.lines


def test_an_import_is_an_image(daemon: Daemon, busybox: str) -> None:
    """Found by its tag, its id, a prefix of that; in the list; with what the changes said."""
    body = daemon.request("GET", "/images/busybox/json").json()
    assert body["Id"] == busybox
    for name in ("busybox:latest", "docker.io/library/busybox", busybox, busybox[7:], busybox[7:19]):
        assert daemon.request("GET", f"/images/{name}/json").json()["Id"] == busybox
    assert body["RepoTags"] == ["busybox:latest"]
    assert body["Config"]["Cmd"] == ["sh"]
    assert (body["Architecture"], body["Os"]) == (architecture(), "linux")
    assert len(body["RootFS"]["Layers"]) == 1
    assert body["Size"] > 1_000_000


def test_an_import_takes_a_compressed_archive(daemon: Daemon) -> None:
    """gzip is seen by its first bytes."""
    identifier = daemon.import_image(gzip.compress(rootfs.busybox()), "packed:1")
    assert daemon.run("echo", "hi", Image="packed:1").stdout == b"hi\n"
    assert identifier.startswith("sha256:")


def test_an_import_takes_changes_and_a_message(daemon: Daemon) -> None:
    """Dockerfile instructions that change the config."""
    changes = ["ENV A=b", 'ENTRYPOINT ["echo"]', "CMD hello", "WORKDIR /w", "USER 1:1", "LABEL l=m", "EXPOSE 80"]
    query = "".join(f"&changes={quote(line)}" for line in changes)
    path = f"/images/create?fromSrc=-&repo=changed&tag=1&message=why{query}"
    assert daemon.request("POST", path, rootfs.busybox(), TAR).status == 200
    body = daemon.request("GET", "/images/changed:1/json").json()
    config = body["Config"]
    assert "A=b" in config["Env"] and config["Entrypoint"] == ["echo"]
    assert config["Cmd"] == ["/bin/sh", "-c", "hello"]
    assert (config["WorkingDir"], config["User"]) == ("/w", "1:1")
    assert (config["Labels"], config["ExposedPorts"]) == ({"l": "m"}, {"80/tcp": {}})
    assert body["Comment"] == "why"


def test_a_body_in_chunks_is_imported(daemon: Daemon) -> None:
    """Clients stream it so."""
    data = rootfs.busybox()
    chunks = (data[at : at + 65_521] for at in range(0, len(data), 65_521))
    answer = daemon.request("POST", "/images/create?fromSrc=-&repo=chunked", chunks, TAR)
    assert answer.status == 200 and "error" not in answer.lines[-1]
    assert daemon.run("true", Image="chunked").status == 0


@pytest.mark.parametrize("query", ["repo=BAD", "repo=a%20b", "repo=x&tag=b@d", "repo=x&changes=FROM%20y"])
def test_a_bad_import_is_refused_before_the_body(daemon: Daemon, query: str) -> None:
    """400, and no image."""
    answer = daemon.request("POST", f"/images/create?fromSrc=-&{query}", rootfs.busybox(), TAR)
    assert answer.status == 400


@pytest.mark.parametrize("platform", ["macos/arm64", "macos", "windows/amd64", "nintendo64/mips"])
def test_an_import_for_another_system_is_refused(daemon: Daemon, platform: str) -> None:
    """No container could run it; in dockerd's words."""
    path = f"/images/create?fromSrc=-&repo=foreign&platform={quote(platform, safe='')}"
    answer = daemon.request("POST", path, rootfs.busybox(), TAR)
    assert (answer.status, answer.message) == (400, "operating system is not supported")
    assert daemon.request("GET", "/images/foreign/json").status == 404


def test_owners_modes_links_and_times_are_kept(daemon: Daemon) -> None:
    """What the archive says is what the container sees."""
    buffer = io.BytesIO(rootfs.busybox())
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for name, kind, fields in (
            ("data", tarfile.DIRTYPE, {"mode": 0o2750, "uid": 12, "gid": 34}),
            ("data/f", tarfile.REGTYPE, {"mode": 0o4711, "uid": 5, "gid": 6, "mtime": 86400}),
            ("data/hard", tarfile.LNKTYPE, {"linkname": "data/f", "mode": 0o4711, "uid": 5, "gid": 6, "mtime": 86400}),
            ("data/soft", tarfile.SYMTYPE, {"linkname": "/etc/passwd", "uid": 7, "gid": 8}),
            ("data/fifo", tarfile.FIFOTYPE, {"mode": 0o600}),
            ("data/node", tarfile.CHRTYPE, {"mode": 0o666, "devmajor": 1, "devminor": 3}),
        ):
            entry = tarfile.TarInfo(name)
            entry.type = kind
            for field, value in fields.items():
                setattr(entry, field, value)
            archive.addfile(entry)
    daemon.import_image(buffer.getvalue(), "kinds:1")
    found = daemon.shell("cd /data; stat -c '%n %F %a %u:%g %h' . f hard soft fifo node; stat -c %Y f", Image="kinds:1")
    assert found.split("\n") == [
        ". directory 2750 12:34 2",
        "f regular empty file 4711 5:6 2",
        "hard regular empty file 4711 5:6 2",
        "soft symbolic link 777 7:8 1",
        "fifo fifo 600 0:0 1",
        "node character special file 666 0:0 1",
        "86400",
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [("../escape", tarfile.REGTYPE, "")],
        [("/../../escape", tarfile.REGTYPE, "")],
        [("a", tarfile.SYMTYPE, "/tmp"), ("a/escape", tarfile.REGTYPE, "")],
        [("a", tarfile.SYMTYPE, "../../../../../../tmp"), ("a/escape", tarfile.REGTYPE, "")],
        [("hard", tarfile.LNKTYPE, "../../../../../../etc/passwd")],
        [("hard", tarfile.LNKTYPE, "/etc/hostname")],
        [("d", tarfile.DIRTYPE, ""), ("d", tarfile.SYMTYPE, "/tmp"), ("d/escape", tarfile.REGTYPE, "")],
    ],
    ids=["dots", "absolute dots", "link", "long link", "hard link out", "absolute hard link", "replaced directory"],
)
def test_a_layer_never_reaches_out_of_its_directory(daemon: Daemon, entries: list[tuple[str, bytes, str]]) -> None:
    """Refused, or kept inside; nothing appears on the host."""
    links = Path("/etc/passwd").stat().st_nlink
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            archive.addfile(entry)
    daemon.request("POST", "/images/create?fromSrc=-&repo=evil", buffer.getvalue(), TAR, checked=False)
    assert not Path("/tmp/escape").exists() and not Path("/escape").exists()
    assert Path("/etc/passwd").stat().st_nlink == links
    assert not list(daemon.root.glob("*/escape")) and not (daemon.root / "escape").exists()


@pytest.mark.parametrize("garbage", [b"garbage", b"", b"\x1f\x8bgarbage", rootfs.archive([])[:700] + b"x" * 324])
def test_garbage_is_no_image(daemon: Daemon, garbage: bytes) -> None:
    """An error in the stream or before it; never an image."""
    before = daemon.request("GET", "/images/json").json()
    answer = daemon.request("POST", "/images/load", garbage, TAR, checked=False)
    assert answer.status >= 400 or "error" in answer.lines[-1]
    assert daemon.request("GET", "/images/json").json() == before


def test_an_archive_that_ends_early_is_no_image(daemon: Daemon) -> None:
    """The client went away in the middle of the body."""
    before = daemon.request("GET", "/images/json").json()
    data = rootfs.busybox()
    with daemon.connection() as connection:
        head = f"POST /images/create?fromSrc=-&repo=half HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.send(head.encode() + data[: len(data) // 2])
        connection.half_close()
        connection.read_to_end()
    assert daemon.request("GET", "/images/json").json() == before
    assert not list((daemon.data_root / "tmp").glob("*")) or daemon.request("GET", "/images/half/json").status == 404


@pytest.mark.parametrize("make", ["docker", "oci"])
def test_an_archive_is_loaded(daemon: Daemon, make: str) -> None:
    """Both layouts, two layers with a whiteout between them."""
    second = rootfs.archive([("etc/.wh.group", 0o644, b""), ("added", 0o644, b"new\n")])
    layers = [rootfs.busybox(), second]
    if make == "docker":
        archive = docker_archive(layers, ["loaded:1"], {"Cmd": ["cat", "/added"]})
    else:
        archive = oci_archive(layers, "docker.io/library/loaded:1", {"Cmd": ["cat", "/added"]})
    assert any("loaded:1" in line.get("stream", "") for line in load(daemon, archive))
    assert daemon.run(Image="loaded:1").stdout == b"new\n"
    assert daemon.run("test", "-e", "/etc/group", Image="loaded:1").status == 1
    assert daemon.run("test", "-e", "/etc/passwd", Image="loaded:1").status == 0
    assert len(daemon.request("GET", "/images/loaded:1/json").json()["RootFS"]["Layers"]) == 2


def test_an_opaque_directory_hides_what_is_below(daemon: Daemon) -> None:
    """.wh..wh..opq, and a directory in place of a file."""
    second = rootfs.archive([("etc/.wh..wh..opq", 0o644, b""), ("etc/only", 0o644, b""), ("root/.wh..wh..opq", 0, b"")])
    load(daemon, docker_archive([rootfs.busybox(), second], ["opaque:1"]))
    listed = daemon.shell("ls /etc", Image="opaque:1").split()
    assert set(listed) - {"mtab"} == {"only", "hosts", "hostname", "resolv.conf"}


def test_many_layers_are_mounted(daemon: Daemon) -> None:
    """More than fit in one page of mount options with whole paths."""
    layers = [rootfs.busybox()] + [rootfs.archive([(f"layer{n}", 0o644, b"%d" % n)]) for n in range(1, 100)]
    load(daemon, docker_archive(layers, ["deep:1"]))
    assert daemon.shell("cat /layer1 /layer50 /layer99", Image="deep:1") == "15099"


def test_a_changed_blob_is_refused(daemon: Daemon) -> None:
    """The digest of every layer is checked on load."""
    layer = rootfs.archive([("f", 0o644, b"good")])
    archive = docker_archive([layer], ["changed:1"]).replace(b"good", b"evil")
    answer = daemon.request("POST", "/images/load", archive, TAR, checked=False)
    assert answer.status >= 400 or "error" in answer.lines[-1]
    assert daemon.request("GET", "/images/changed:1/json").status == 404


def test_the_list_filters(daemon: Daemon, busybox: str) -> None:
    """By reference, label, dangling, before and since."""
    daemon.import_image(tar({"a": b""}), "filter/one:1", ["LABEL k=v"])
    daemon.import_image(tar({"b": b""}), "filter/two:2")

    def tags(**filters: list[str]) -> set[str]:
        answer = daemon.request("GET", f"/images/json?filters={quote(json.dumps(filters))}")
        assert answer.status == 200, answer
        return {tag for image in answer.json() for tag in image["RepoTags"]}

    assert tags(reference=["busybox"]) == {"busybox:latest"}
    assert tags(reference=["filter/*"]) == {"filter/one:1", "filter/two:2"}
    assert tags(reference=["*/*:2"]) == {"filter/two:2"}
    assert tags(label=["k"]) == tags(label=["k=v"]) == {"filter/one:1"}
    assert tags(label=["k=w"]) == set()
    assert tags(dangling=["true"]) == set()
    assert "busybox:latest" in tags(dangling=["false"])
    assert "busybox:latest" in tags(before=["filter/one:1"])
    assert tags(since=["busybox:latest"]) == {"filter/one:1", "filter/two:2"}
    answer = daemon.request("GET", '/images/json?filters={"nope":["x"]}')
    assert (answer.status, answer.message) == (400, "invalid filter 'nope'")


def test_the_list_has_what_is_asked_for(daemon: Daemon, busybox: str) -> None:
    """Containers, sizes, digests and manifests."""

    def row(query: str) -> dict:
        return next(row for row in daemon.request("GET", f"/images/json?{query}").json() if row["Id"] == busybox)

    plain = row("")
    assert plain["RepoTags"] == ["busybox:latest"]
    assert plain["SharedSize"] == -1
    assert plain["Size"] > 1_000_000
    assert plain["Created"] > 1_600_000_000
    assert row("shared-size=1")["SharedSize"] >= 0
    assert row("manifests=1")["Manifests"][0]["Kind"] == "image"
    assert row("all=1") == plain


def test_an_older_client_gets_what_it_knows(daemon: Daemon, busybox: str) -> None:
    """Before 1.44 an image had a VirtualSize."""
    for path in ("/v1.43/images/busybox/json", "/v1.43/images/json"):
        body = daemon.request("GET", path).json()
        body = body[0] if isinstance(body, list) else body
        assert body["VirtualSize"] == body["Size"]
    assert "VirtualSize" not in daemon.request("GET", "/v1.44/images/busybox/json").json()


def test_an_image_is_deleted_by_tag_and_by_id(daemon: Daemon) -> None:
    """The last tag takes the image along."""
    identifier = daemon.import_image(tar({"c": b""}), "gone:1")
    answer = daemon.request("DELETE", "/images/gone:1")
    assert answer.json() == [{"Untagged": "gone:1"}, {"Deleted": identifier}]
    answer = daemon.request("GET", "/images/gone:1/json")
    assert (answer.status, answer.message) == (404, "No such image: gone:1")
    load(daemon, docker_archive([tar({"d": b""})], ["two:1", "two:2"]))
    identifier = daemon.request("GET", "/images/two:1/json").json()["Id"]
    assert daemon.request("DELETE", f"/images/{identifier}").status == 409
    assert daemon.request("DELETE", "/images/two:1").json() == [{"Untagged": "two:1"}]
    answer = daemon.request("DELETE", f"/images/{identifier[7:19]}")
    assert answer.json() == [{"Untagged": "two:2"}, {"Deleted": identifier}]


def test_deleting_an_image_frees_its_layers(daemon: Daemon) -> None:
    """What no image and no container uses is not kept on the disk."""

    def used() -> int:
        files = (os.path.join(place, name) for place, _, names in os.walk(daemon.data_root) for name in names)
        return sum(os.lstat(file).st_size for file in files if os.path.lexists(file))

    before = used()
    daemon.import_image(tar({"big": bytes(5_000_000)}), "big:1")
    assert used() > before + 4_000_000
    daemon.request("DELETE", "/images/big:1")
    until(lambda: used() < before + 1_000_000)


def test_an_image_that_a_container_uses(daemon: Daemon, container: Callable[..., str]) -> None:
    """Deleting it by id is a conflict while a container is there; by tag the transcript (217) allows it."""
    identifier = daemon.import_image(rootfs.busybox(), "used:1", ['CMD ["sleep", "60"]'])
    one = container(Image="used:1")
    daemon.begin(one)
    answer = daemon.request("DELETE", f"/images/{identifier}")
    assert answer.status == 409
    assert one[:12] in answer.message
    daemon.remove(one)
    assert daemon.request("DELETE", f"/images/{identifier}").status == 200


def test_an_image_that_is_not_there(daemon: Daemon) -> None:
    """In the transcript's words."""
    for method, path in (("GET", "/images/nope/json"), ("DELETE", "/images/nope")):
        answer = daemon.request(method, path)
        assert (answer.status, answer.message) == (404, "No such image: nope:latest")
    answer = daemon.request("GET", f"/images/sha256:{'0' * 64}/json")
    assert answer.status == 404 and re.search("No such image: sha256:0+", answer.message)


def test_images_stay_over_a_restart(own_daemon: Daemon) -> None:
    """With their ids and tags."""
    before = own_daemon.request("GET", "/images/json").json()
    own_daemon.restart()
    assert own_daemon.request("GET", "/images/json").json() == before
    assert own_daemon.shell("echo hi") == "hi"
