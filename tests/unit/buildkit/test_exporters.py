"""What exporters read and tell: options, annotations, names of packages, and a tree's files as fsutil wants them."""

import json
import os
import stat
from pathlib import Path

import pytest

from engine.daemon.buildkit.exporters import intoto, walked
from engine.daemon.buildkit.exporters.annotations import INDEX, Annotations
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.intoto import Attestation, Subject
from engine.daemon.buildkit.exporters.layering import Wanted
from engine.daemon.buildkit.exporters.walked import Top
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.errors import Invalid, NotBuilt

AMD, ARM = Platform("linux", "amd64"), Platform("linux", "arm", "v7")


def test_options_are_read_and_none_is_left() -> None:
    attrs = Attrs("x", {"a": "true", "b": "", "c": "7", "d": "text", "e.1": "one"})
    assert attrs.flag("a") and attrs.flag("b") and not attrs.flag("absent")
    assert attrs.choice("absent") is None
    assert (attrs.number("c"), attrs.number("absent"), attrs.text("d")) == (7, None, "text")
    with pytest.raises(NotBuilt, match=r"the option e\.1 of x"):
        attrs.end()
    assert attrs.beginning("e.") == {"e.1": "one"}
    attrs.end()


@pytest.mark.parametrize(("read", "value"), [("flag", "maybe"), ("number", "0x7"), ("number", "9" * 400)])
def test_options_of_another_type(read: str, value: str) -> None:
    with pytest.raises(Invalid, match="specified for k"):
        getattr(Attrs("x", {"k": value}), read)("k")


def test_annotations_have_their_places() -> None:
    made = Annotations(
        {
            "annotation.a": "all",
            "annotation[linux/amd64].a": "amd",
            "annotation-index.b": "index",
            "annotation-manifest-descriptor[linux/arm/v7].c": "arm",
        }
    )
    made.check([AMD, ARM], oci=True, indexed=True)
    assert made.manifest(AMD) == {"a": "amd"}
    assert made.manifest(ARM) == {"a": "all"}
    assert made.manifest_descriptor(ARM) == {"c": "arm"}
    assert made.manifest_descriptor(AMD) == {}
    assert made.whole(INDEX) == {"b": "index"}
    for wanted, oci, indexed in (([AMD], True, True), ([AMD, ARM], False, True), ([AMD, ARM], True, False)):
        with pytest.raises(Invalid):
            made.check(wanted, oci, indexed)


@pytest.mark.parametrize(
    "name", ["annotation-other.a", "annotation-index[linux/amd64].a", "annotation", "annotation[x y].a"]
)
def test_annotations_without_a_place(name: str) -> None:
    with pytest.raises(Invalid):
        Annotations({name: "x"})


@pytest.mark.parametrize(
    ("name", "platform", "url"),
    [
        ("busybox", AMD, "pkg:docker/busybox@latest?platform=linux%2Famd64"),
        ("r.example:5000/a/b:c", None, "pkg:docker/r.example:5000/a/b@c"),
        (f"a/b@sha256:{'1' * 64}", None, f"pkg:docker/a/b?digest=sha256:{'1' * 64}"),
    ],
)
def test_names_of_packages(name: str, platform: Platform | None, url: str) -> None:
    assert intoto.package_url(Reference.parse(name), platform) == url


@pytest.mark.parametrize("artifact", [True, False])
def test_the_manifest_of_statements(artifact: bool) -> None:
    target = {"mediaType": "m", "digest": f"sha256:{'2' * 64}", "size": 5}
    said = intoto.statement(Attestation("https://kind.example", b'{"k":1}', "f"), [Subject("n", (target["digest"],))])
    whole = json.loads(said.data)
    assert (whole["predicateType"], whole["predicate"]) == ("https://kind.example", {"k": 1})
    assert whole["subject"] == [{"name": "n", "digest": {"sha256": "2" * 64}}]
    entry, contents = intoto.manifest(target, [said], oci=True, artifact=artifact)
    assert entry["annotations"]["vnd.docker.reference.digest"] == target["digest"]
    assert len(contents) == 3 and entry["size"] == len(contents[-1])
    assert (json.loads(contents[-1]).get("subject", {}).get("mediaType") == "m") == artifact
    assert contents[-1].startswith(b'{\n  "schemaVersion": 2,\n')


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted("estargz"), "estargz"),
        (Wanted("xz"), "unsupported"),
        (Wanted("gzip", 12), "level"),
    ],
)
def test_layers_that_cannot_be(wanted: Wanted, words: str) -> None:
    with pytest.raises((Invalid, NotBuilt), match=words):
        wanted.check()


def top(root: Path, below: str = "", **beside: bytes) -> Top:
    return Top(os.open(root, os.O_RDONLY | os.O_DIRECTORY), below, root.name, beside)


def test_a_tree_in_the_order_of_fsutil(tmp_path: Path) -> None:
    """Parents first, by components; further names of a file say of which; sockets and whiteouts stay out."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "z").write_bytes(b"zz")
    (tmp_path / "a-b").write_bytes(b"x")
    os.link(tmp_path / "a" / "z", tmp_path / "b")
    os.symlink("../../etc/passwd", tmp_path / "c")
    os.mkfifo(tmp_path / "d", 0o640)
    os.chmod(tmp_path / "a-b", 0o4755)
    one = top(tmp_path, provenance=b"p")
    found = list(walked.entries([one], 5, 0))
    os.close(one.root)
    paths = [each.said["path"] for each in found]
    assert paths == [b"a", b"a/z", b"a-b", b"b", b"c", b"d", b"provenance"]
    said = {each.said["path"]: each.said for each in found}
    assert said[b"a"]["mode"] & 1 << 31
    assert said[b"a-b"]["mode"] == 1 << 23 | 0o755
    assert said[b"b"]["linkname"] == b"a/z" and "size" not in said[b"b"]
    assert said[b"c"]["linkname"] == b"../../etc/passwd" and said[b"c"]["mode"] & 1 << 27
    assert stat.S_IMODE(said[b"d"]["mode"]) == 0o640 and said[b"d"]["mode"] & 1 << 25
    assert {each["modTime"] for each in said.values()} == {5 * 10**9}
    assert [each.said["path"] for each in found if each.has_data] == [b"a/z", b"a-b", b"provenance"]


def test_trees_in_one_place_must_not_have_the_same_files(tmp_path: Path) -> None:
    tops = []
    for name in ("one", "two"):
        (tmp_path / name / "d").mkdir(parents=True)
        (tmp_path / name / "d" / name).write_bytes(b"")
        tops.append(top(tmp_path / name))
    paths = [each.said["path"] for each in walked.entries(tops, None, 0)]
    assert paths == [b"d", b"d/one", b"d/two"]
    (tmp_path / "two" / "d" / "one").write_bytes(b"")
    with pytest.raises(Invalid, match="cannot overwrite d/one from one with two"):
        list(walked.entries(tops, None, 0))
    for each in tops:
        os.close(each.root)
