"""Hostile archives sent to a running daemon: an error line, nothing left in the data root, and little memory.

The same attacks on the parts, and the fuzzing, are in tests/unit/images/archives and tests/long.
"""

import gzip
import json
import os
import re
import tarfile
import zlib

import pytest

from tests.harness.listening import until
from tests.unit.images import hostile, made
from tests.unit.images.made import MadeImage, archive, directory, link, member, symlink

TAR = {"Content-Type": "application/x-tar"}
# What the whole daemon may take, whatever it is sent; and what one request may add.
MOST_KB = 60_000
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def target(world):
    """A daemon without any image."""
    alone = world.daemon()
    alone.start()
    yield alone
    alone.close()


def peak(daemon):
    """The most memory, in KB, that the daemon has had since `forget_peak`."""
    with open(f"/proc/{daemon.pid}/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])


def forget_peak(daemon):
    with open(f"/proc/{daemon.pid}/clear_refs", "w") as file:
        file.write("5")


def left(daemon):
    """What there is below the data root of blobs, layers and temporary files."""
    places = ("blobs/sha256", "layers", "tmp")
    return [f"{place}/{name}" for place in places for name in os.listdir(daemon.data_root / place)]


def refused(daemon, body):
    """The error line of a load that must not go well, after which nothing is left and little memory was used."""
    forget_peak(daemon)
    answer = daemon.request("POST", "/images/load", body, TAR, timeout=60)
    error = answer.lines[-1]["error"] if answer.status == 200 else answer.json()["message"]
    assert left(daemon) == []
    assert daemon.request("GET", "/images/json").json() == []
    assert peak(daemon) < MOST_KB
    return error


def stretched(name, megabytes):
    """The head of a member that is larger than its archive holds in memory, and its zeros, piece by piece."""
    info = tarfile.TarInfo(name)
    info.size = megabytes * MEGABYTE
    yield info.tobuf()
    for _ in range(megabytes):
        yield bytes(MEGABYTE)


def packed(pieces):
    """The pieces through gzip, as they come."""
    press = zlib.compressobj(9, wbits=31)
    for piece in pieces:
        yield press.compress(piece)
    yield press.flush()


def docker_archive(layer, diff_id):
    """One image whose layer is already in the form in which it is stored."""
    config = json.dumps({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [diff_id]}})
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["evil:1"], "Layers": ["l.tar"]}])
    files = (("l.tar", layer), ("c.json", config.encode()), ("manifest.json", manifest.encode()))
    return archive(*(member(name, data) for name, data in files))


def test_a_small_archive_that_unpacks_to_a_large_one(target):
    bomb = b"".join(packed([*stretched("bomb", 96), bytes(1024)]))
    assert len(bomb) < MEGABYTE
    assert refused(target, bomb) == "unrecognized image format"


def test_a_layer_that_unpacks_to_a_large_file(target):
    layer = b"".join(packed([*stretched("bomb", 96), bytes(1024)]))
    assert "another layer than" in refused(target, docker_archive(layer, "sha256:" + "0" * 64))


def test_a_document_that_is_large_in_memory(target):
    lists = b"[" + b"[]," * (MEGABYTE + 100_000) + b"[]]"
    assert "more than" in refused(target, archive(member("manifest.json", lists)))
    assert "larger than" in refused(target, archive(member("index.json", b" " * (5 * MEGABYTE))))
    assert "nested too deeply" in refused(target, archive(member("index.json", b"[" * 1_000_000)))


def test_a_hundred_thousand_members(target):
    block = member("x")[0].tobuf()

    def members():
        for number in range(100_000):
            # A sum that stays right: the name's letters change places.
            name = f"{number:06d}".encode()
            head = name + b"\0" * 94 + block[100:148] + b" " * 8 + block[156:]
            yield head[:148] + b"%06o\0 " % sum(head) + head[156:]

    assert "more than 10000 files" in refused(target, b"".join(members()))


def test_names_that_fill_the_memory(target):
    names = (member(f"{number}" + "n" * 900_000) for number in range(8))
    assert "names are too long" in refused(target, archive(*names))


@pytest.mark.parametrize("size", [(1 << 62) + 1, 1 << 50, 9 << 30])
def test_a_member_that_says_it_is_larger_than_any_disk(target, size):
    info = tarfile.TarInfo("manifest.json")
    info.size = size
    head = info.tobuf(tarfile.GNU_FORMAT)
    assert refused(target, head + b"some") in ("unexpected EOF", "archive/tar: invalid tar header")


def test_parents_that_go_in_a_circle(target):
    names = ["a", "b"]
    files = []
    for name, parent in (("a", "b"), ("b", "a")):
        document = json.dumps({"id": name, "parent": parent, "os": "linux", "architecture": "amd64"}).encode()
        files += [member(f"{name}/json", document), member(f"{name}/layer.tar", archive())]
    body = archive(*files, member("repositories", json.dumps({"x": {"1": names[0]}}).encode()))
    assert "max depth exceeded" in refused(target, body)


def test_links_that_go_in_a_circle_or_out(target):
    assert "too many links" in refused(target, archive(symlink("manifest.json", "b"), symlink("b", "manifest.json")))
    assert "too many links" in refused(target, archive(link("manifest.json", "manifest.json")))
    outside = json.dumps([{"Config": "../../../../../../etc/passwd", "Layers": []}]).encode()
    assert "is missing" in refused(target, archive(member("manifest.json", outside)))
    config = json.dumps([{"Config": "c", "Layers": []}]).encode()
    assert "is missing" in refused(target, archive(symlink("c", "/etc/passwd"), member("manifest.json", config)))


def test_indexes_inside_one_another_without_end(target):
    inner = MadeImage(archive())
    document = made.index(inner.entry(architecture="amd64"))
    blobs = [*inner.blobs.values(), inner.manifest, document]
    for _ in range(8):
        document = made.index(made.part(made.OCI + "index.v1+json", document))
        blobs.append(document)
    files = [member(f"blobs/sha256/{made.digest(blob)[7:]}", blob) for blob in blobs[:-1]]
    assert "too many indexes" in refused(target, archive(*files, member("index.json", document)))


def test_what_is_in_it_twice_or_is_a_layer_and_a_config_at_once(target):
    image = MadeImage(archive(member("a", b"1")))
    twice = made.layout(image, hostile.NAMED, more=[("index.json", made.index())])
    assert "occurs twice" in refused(target, twice)
    manifest = json.dumps([{"Config": "l.tar", "Layers": ["l.tar"]}]).encode()
    both = archive(member("l.tar", archive(member("a", b"1"))), member("manifest.json", manifest))
    assert "invalid image config" in refused(target, both)


@pytest.mark.parametrize("lie", ["layer", "config", "manifest"])
def test_blobs_that_are_not_what_they_are_called(target, lie):
    image = MadeImage(archive(member("a", b"1")))
    wrong = {"layer": image.packed[0], "config": image.config, "manifest": image.manifest}[lie]
    image.lies[made.digest(wrong)] = wrong[:-1] + b"~"
    assert "invalid archive: the blob" in refused(target, made.layout(image, hostile.NAMED))


def test_layers_that_reach_out_of_their_directory(target, tmp_path):
    outside = str(tmp_path)
    attacks = {
        "contains '..'": [member("../../../../../../.." + outside + "/a", b"x")],
        "failed to unpack": [symlink("out", outside), member("out/a", b"x")],
        "hard link": [link("a", "../../../../../../etc/passwd")],
    }
    for members in attacks.values():
        layer = archive(directory("d"), *members)
        # A link that points out is a link like any other, and what goes through it stays in the layer, or is refused.
        answer = target.request("POST", "/images/load", docker_archive(layer, made.digest(layer)), TAR)
        if "error" not in answer.lines[-1]:
            target.request("DELETE", "/images/evil:1?force=1")
        assert os.listdir(tmp_path) == [] and left(target) == []


def test_an_archive_that_ends_early_or_is_damaged_in_its_dress(target):
    image = MadeImage(archive(member("a", os.urandom(5000))))
    whole = gzip.compress(made.layout(image, hostile.NAMED))
    assert refused(target, whole[: len(whole) // 2]) == "unexpected EOF"
    broken = whole[:-6] + bytes(6)
    # The sum at the end is wrong, and all that is before it was right: the whole stream counts.
    forget_peak(target)
    lines = target.request("POST", "/images/load", broken, TAR).lines
    assert "damaged gzip stream" in lines[-1]["error"] and left(target) == []


def test_a_client_that_goes_away_in_the_middle(target):
    """What was unpacked on the way goes with it."""
    image = MadeImage(archive(member("a", os.urandom(2 * MEGABYTE))))
    data = made.layout(image, hostile.NAMED)
    with target.connection() as connection:
        head = f"POST /images/load HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.send(head.encode() + data[: len(data) // 2])
    target.request("GET", "/_ping")
    until(lambda: left(target) == [])  # the daemon's thread sees the end of the connection when it sees it


def test_a_daemon_that_is_killed_in_the_middle_of_a_load_leaves_nothing(target):
    image = MadeImage(archive(member("a", os.urandom(2 * MEGABYTE))), archive(member("b", b"2")))
    data = made.layout(image, hostile.NAMED)
    with target.connection() as connection:
        head = f"POST /images/load HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.send(head.encode() + data[: len(data) * 3 // 4])
        until(lambda: left(target))  # there is no event for "it has begun"
        target.kill9()
    target.start()
    assert left(target) == []
