"""Several platforms of one index at once: found, listed, removed one by one, held for their containers."""

import json
import pathlib

import pytest

from engine.daemon.containers.record import State
from engine.daemon.images import platform as platforms
from engine.daemon.images.verbs import listing, remove
from engine.daemon.store import blobsources
from engine.errors import Conflict, Invalid, NotFound
from tests.harness import parts
from tests.unit.images import made, several
from tests.unit.images.made import files_below

OTHER = "arm64" if platforms.host().architecture != "arm64" else "amd64"
HOST = platforms.host().architecture


def container(image, running=False, mounts=()):
    state = State("running" if running else "exited")
    return parts.container(image="x", image_id=image.id, layers=image.layers, mounts=mounts, state=state)


def using(*containers):
    return lambda image_id: [one for one in containers if one.image_id == image_id]


NOBODY = using()


@pytest.fixture
def two(store):
    """Members of an index, the index, and its images of the other platform and of the host, added in that order."""
    members = several.images(OTHER, HOST, shared=b"both")
    attestation = made.part("application/vnd.oci.image.manifest.v1+json", b"{}", platform={"os": "unknown"})
    attestation["annotations"] = {"vnd.docker.reference.digest": members[HOST].digest}
    attestation["platform"]["architecture"] = "unknown"
    absent = made.part("application/vnd.oci.image.manifest.v1+json", b"x", platform={"os": "linux"})
    absent["platform"]["architecture"] = "s390x"
    index = several.index_of(members, absent, attestation)
    return [several.add(store, index, members[name], "x") for name in (OTHER, HOST)]


def blobs(store):
    return files_below(pathlib.Path(store.content.path("sha256:0")).parent)


def test_the_second_platform_stands_beside_the_first(store, two):
    other, host = two
    assert other.id == host.id and other.manifest != host.manifest
    assert store.find("x") == host and store.platforms(host) == [host, store.find("x", f"linux/{OTHER}")]
    assert store.find("x", f"linux/{OTHER}").layers == other.layers
    assert other.layers[0] == host.layers[0] and other.layers[1] != host.layers[1]
    assert (store.count(), store.all()) == (1, [host])
    with pytest.raises(NotFound, match=r"was found but does not provide the specified platform \(linux/s390x\)"):
        store.find("x", "linux/s390x")


def test_without_the_hosts_platform_any_other_is_found(store):
    members = several.images(OTHER)
    image = several.add(store, several.index_of(members), members[OTHER], "x")
    assert store.find("x") == image


def test_a_platform_of_a_name_that_moved_on_stays_with_its_index(store, two):
    members = several.images(OTHER, HOST)
    newer = several.add(store, several.index_of(members), members[HOST], "x")
    assert store.find("x") == newer
    assert {one.manifest for one in store.platforms(two[0])} == {image.manifest for image in two}


def test_a_list_shows_what_is_here_and_what_the_index_has_besides(store, two):
    other, host = two
    user = container(other)
    with store.database.transaction() as connection:
        blobsources.remember(connection, "docker.io", "library/x", [other.manifest])
    (shown,) = listing.images_json(store, {}, manifests=True, shared_size=True, used_by=using(user), identity=True)
    kinds = {one["ID"]: (one["Kind"], one["Available"]) for one in shown["Manifests"]}
    assert [kinds[host.manifest], kinds[other.manifest]] == [("image", True)] * 2
    assert sorted(kinds.values()) == [("attestation", False), ("image", False), ("image", True), ("image", True)]
    one = next(one for one in shown["Manifests"] if one["ID"] == other.manifest)
    assert one["ImageData"]["Containers"] == [user.id] and one["Descriptor"]["platform"]["architecture"] == OTHER
    assert one["ImageData"]["Identity"] == {"Pull": [{"Repository": "docker.io/library/x"}]}
    assert "Identity" not in next(one for one in shown["Manifests"] if one["ID"] == host.manifest)["ImageData"]
    assert one["ImageData"]["Size"]["Unpacked"] == sum(other.layer_sizes)
    with store.database.reading() as connection:
        from engine.daemon.store import images as table

        content = sum(size for _, size in table.image_blobs(connection, host.id))
    unpacked = sum(other.layer_sizes) + host.layer_sizes[1]
    assert shown["Size"] == content + unpacked and shown["SharedSize"] == 0
    assert listing.inspect_json(store, host)["Size"] == shown["Size"]
    single = listing.inspect_json(store, other, single=True)
    assert (single["Id"], single["Architecture"]) == (other.manifest, OTHER)
    assert single["Descriptor"]["platform"] == {"architecture": OTHER, "os": "linux"}


def test_a_descriptor_has_the_platform_that_the_index_gives_it_and_no_other(store):
    members = several.images(OTHER, HOST)
    bare = made.part(made.OCI + "manifest.v1+json", members[OTHER].manifest, annotations={"a": "b"})
    ours = {**members[HOST].entry(architecture=HOST, variant="v9"), "artifactType": "x"}
    inner = made.index(ours)
    image = several.add(store, inner, members[HOST], "inner")
    index = made.index(bare, made.part(made.OCI + "index.v1+json", inner))
    several.add(store, index, members[OTHER], "x")
    image = several.add(store, index, members[HOST], "x")
    shown = {one["ID"]: one for one in listing.inspect_json(store, image, manifests=True)["Manifests"]}
    assert set(shown) == {members[OTHER].digest, members[HOST].digest}
    first, second = shown[members[OTHER].digest], shown[members[HOST].digest]
    assert first["Descriptor"] == bare and first["ImageData"]["Platform"]["architecture"] == OTHER
    platform = {"architecture": HOST, "os": "linux", "variant": "v9"}
    assert second["Descriptor"]["platform"] == second["ImageData"]["Platform"] == platform
    for one, digest in ((store.find("x", f"linux/{OTHER}"), members[OTHER].digest), (image, members[HOST].digest)):
        assert listing.inspect_json(store, one, single=True)["Descriptor"] == shown[digest]["Descriptor"]


def test_the_only_manifest_of_an_image_has_no_platform_in_its_descriptor(store):
    image = several.import_(store, "x")
    (shown,) = listing.inspect_json(store, image, manifests=True)["Manifests"]
    assert shown["Descriptor"] == image.descriptor and set(shown["ImageData"]["Platform"]) >= {"architecture", "os"}


def test_what_a_stranger_put_into_an_index_is_not_shown(store):
    members = several.images(HOST)
    wild = made.part("x", b"1", platform={"os": 5, "architecture": ["a"]}, annotations={"a": {}}, urls=[5])
    wilder = made.part("x", b"2", platform="all", annotations={"vnd.docker.reference.digest": "../x"})
    wilder["mediaType"] = {}
    index = several.index_of(members, wild, wilder)
    image = several.add(store, index, members[HOST], "x")
    first, second, third = listing.inspect_json(store, image, manifests=True)["Manifests"]
    assert first["Available"] and json.dumps(first)
    assert (second["Kind"], set(second["Descriptor"])) == ("unknown", {"mediaType", "digest", "size"})
    assert (third["Kind"], third["Descriptor"]["mediaType"]) == ("unknown", "")


def test_single_platforms_are_removed_with_force_alone(store, two):
    other, host = two
    with pytest.raises(Invalid, match="Content will be removed from all images referencing this variant"):
        remove.remove(store, "x", False, False, NOBODY, [f"linux/{OTHER}"])
    before = blobs(store)
    assert remove.remove(store, "x", True, False, NOBODY, [f"linux/{OTHER}"]) == [{"Deleted": other.manifest}]
    assert store.platforms(host) == [host] and store.find("x") == host
    gone = {f"sha256:{name}" for name in before - blobs(store)}
    assert other.manifest in gone and host.manifest not in gone and len(gone) == 3
    assert files_below(pathlib.Path(store.layer_root)) >= {*host.layers} and len(store.platforms(host)) == 1
    assert not pathlib.Path(store.layer_root, other.layers[1]).exists()
    with pytest.raises(NotFound, match=f"failed to delete platform linux/{OTHER}"):
        remove.remove(store, "x", True, False, NOBODY, [f"linux/{OTHER}"])
    everything = [{"Deleted": host.manifest}, {"Untagged": "x:latest"}, {"Deleted": host.id}]
    assert remove.remove(store, "x", True, False, NOBODY, [f"linux/{HOST}"]) == everything
    assert store.all() == [] and blobs(store) == set() and files_below(pathlib.Path(store.layer_root)) == set()


def test_a_platform_of_a_running_container_stays_and_the_others_may_go(store, two):
    other, host = two
    used_by = using(container(other, running=True))
    with pytest.raises(Conflict, match=r"cannot be forced.* running container cccccccccccc"):
        remove.remove(store, "x", True, False, used_by, [f"linux/{OTHER}"])
    assert remove.remove(store, "x", True, False, used_by, [f"linux/{HOST}"]) == [{"Deleted": host.manifest}]
    assert store.find("x") == store.find("x", f"linux/{OTHER}")


def test_a_removed_platform_is_held_while_a_container_stands_on_it(store, two):
    other, host = two
    used_by = using(container(other))
    remove.remove(store, "x", True, False, used_by, [f"linux/{OTHER}"])
    assert store.platforms(host) == [host]
    assert pathlib.Path(store.layer_root, other.layers[1]).exists()
    assert store.origin(host.id, other.layers).manifest == other.manifest
    assert store.origin(host.id, host.layers) == host
    with pytest.raises(NotFound):
        store.check(host.id, other.layers)
    store.release(used_by)
    assert pathlib.Path(store.layer_root, other.layers[1]).exists()
    store.release(NOBODY)
    assert not pathlib.Path(store.layer_root, other.layers[1]).exists()


def test_a_mounted_platform_is_held_too(store, two):
    other, host = two
    point = {"Type": "image", "Spec": {"Image": host.id, "Layers": list(other.layers)}}
    user = container(host, mounts=[point])
    user.layers = ("77",)
    remove.remove(store, host.id, True, False, using(user))
    assert store.all() == []
    held = files_below(pathlib.Path(store.layer_root))
    assert {*other.layers} <= held and host.layers[1] not in held
    store.release(NOBODY)
    assert files_below(pathlib.Path(store.layer_root)) == set() == blobs(store)


def test_what_was_removed_is_whole_when_it_comes_again(store, two):
    other, host = two
    remove.remove(store, "x", True, False, using(container(other)))  # its name goes, the container's image stays
    remove.remove(store, host.id, True, False, using(container(other)))
    assert store.all() == []
    members = several.images(OTHER, HOST, shared=b"both")
    again = several.add(store, store.content.read(host.id, 10_000), members[OTHER], "y")
    assert again.layers == other.layers and store.platforms(again) == [again]


def test_a_restart_finds_every_platform(store, two, tmp_path):
    store.database.close()
    again = made.store(tmp_path / "root")
    assert again.platforms(again.find("x")) == [two[1], again.find("x", f"linux/{OTHER}")]
