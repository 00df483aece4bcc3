"""Actions on files, and merges and differences of trees, in graphs of operations (LLB) that a frontend brings."""

from typing import Any

import pytest

from engine.daemon.buildkit.messages import ops
from engine.errors import EngineError
from engine.protocols import protobuf
from tests.harness.daemon import Daemon
from tests.harness.frontends import Frontend, frontend
from tests.harness.graphs import COPY, MKDIR, MKFILE, Made, Writer

IMAGE = "busybox:latest"
GO_DIRECTORY, GO_LINK = 1 << 31, 1 << 27


def made(asked: Frontend, writer: Writer, result: Made) -> str:
    """The id of what comes of it."""
    return asked.solve(writer.definition(result), Evaluate=True)


def stat(asked: Frontend, ref: str, path: str) -> dict[str, Any]:
    """What is at a path, whose directory is listed, so that no link is followed."""
    above, _, name = path.rpartition("/")
    (found,) = [
        each for each in asked("ReadDir", {"Ref": ref, "DirPath": above or "/"})["entries"] if each["path"] == name
    ]
    assert isinstance(found, dict)
    return found


def mkdir(path: str, **more: Any) -> dict[str, Any]:
    return {"mkdir": {**MKDIR, "path": path, **more}}


def mkfile(path: str, data: bytes = b"", **more: Any) -> dict[str, Any]:
    return {"mkfile": {**MKFILE, "path": path, "data": data, **more}}


def copy(source: str, destination: str, **more: Any) -> dict[str, Any]:
    return {"secondaryInput": 1, "copy": {**COPY, "src": source, "dest": destination, **more}}


def sources(writer: Writer) -> Made:
    """A tree to copy from."""
    return writer.files(
        mkdir("/a/b/c", makeParents=True),
        mkfile("/a/b/one", b"1", mode=0o600),
        mkfile("/a/b/two.txt", b"2"),
        mkfile("/a/b/c/deep.txt", b"3"),
        mkfile(
            "/a/three", b"3", owner={"user": {"byID": 5}, "group": {"byID": 6}}, timestamp=1_000_000_000_000_000_000
        ),
        {"symlink": {"oldpath": "three", "newpath": "/a/link", "timestamp": -1}},
        {"symlink": {"oldpath": "../../../../etc/passwd", "newpath": "/a/out", "timestamp": -1}},
    )


def test_what_is_made_has_what_was_asked_for(daemon: Daemon) -> None:
    writer = Writer()
    owner = {"user": {"byID": 5}, "group": {"byID": 6}}
    tree = writer.files(
        mkdir("/d/e", makeParents=True, mode=0o750, owner=owner, timestamp=1_000_000_000_000_000_000),
        mkfile("/d/f", b"contents", mode=0o4640, owner=owner, timestamp=2_000_000_000_000_000_000),
        mkdir("/d"),
        {"symlink": {"oldpath": "/nowhere", "newpath": "/d/l", "owner": owner, "timestamp": 3_000_000_000_000_000_000}},
        mkfile("/d/g", b"old"),
        mkfile("/d/g", b"new"),
    )
    with frontend(daemon) as asked:
        ref = made(asked, writer, tree)
        directory, file, link = (stat(asked, ref, path) for path in ("/d/e", "/d/f", "/d/l"))
        assert (directory["mode"], directory["uid"], directory["gid"]) == (GO_DIRECTORY | 0o750, 5, 6)
        assert (file["mode"], file["uid"], file["gid"], file["modTime"]) == (0o640, 5, 6, 2 * 10**18)
        assert (link["linkname"], link["uid"], link["modTime"]) == ("/nowhere", 5, 3 * 10**18)
        assert asked.read(ref, "/d/g") == b"new"


def test_removals(daemon: Daemon, busybox: str) -> None:
    """From a layer below too, and through no link."""
    writer = Writer()
    base = writer.files(
        mkdir("/d"), mkfile("/d/a.txt"), mkfile("/d/b.txt"), mkfile("/d/c"), mkdir("/e/f", makeParents=True),
        {"symlink": {"oldpath": "/d", "newpath": "/l", "timestamp": -1}},
        inputs=(writer.image(IMAGE),),
    )  # fmt: skip
    tree = writer.files(
        {"rm": {"path": "/d/*.txt", "allowWildcard": True}},
        {"rm": {"path": "/e"}},
        {"rm": {"path": "/nothing", "allowNotFound": True}},
        {"rm": {"path": "/l"}},
        {"rm": {"path": "/bin/busybox"}},
        inputs=(base,),
    )
    with frontend(daemon) as asked:
        ref = made(asked, writer, tree)
        assert asked.names(ref, "/d") == ["c"]
        assert not {"e", "l"} & set(asked.names(ref, "/")) and "busybox" not in asked.names(ref, "/bin")
        for path, words in (("/nothing", "no such file or directory"), ("/", "invalid empty path")):
            with pytest.raises(EngineError, match=words):
                made(asked, writer, writer.files({"rm": {"path": path}}, inputs=(base,)))


COPIES: list[tuple[dict[str, Any], dict[str, str | None]]] = [
    (copy("/a/three", "/x"), {"/x": "3"}),
    (copy("/a/three", "/new/"), {"/new/three": "3"}),
    (copy("/a/three", "/etc"), {"/etc/three": "3"}),
    (copy("/a/b", "/new"), {"/new/one": "1", "/new/c/deep.txt": "3"}),
    (copy("/a/b", "/etc"), {"/etc/b/one": "1"}),
    (copy("/a/b", "/etc", dirCopyContents=True), {"/etc/one": "1", "/etc/b": None}),
    (copy("/a/b/.", "/etc"), {"/etc/one": "1", "/etc/b": None}),
    (copy("/a/b/*", "/w/", allowWildcard=True), {"/w/one": "1", "/w/two.txt": "2", "/w/deep.txt": None}),
    (copy("/a/*/*.txt", "/w/", allowWildcard=True), {"/w/two.txt": "2", "/w/one": None}),
    (copy("/none*", "/w/", allowWildcard=True, allowEmptyWildcard=True), {"/w": None}),
    (copy("/a", "/p", include_patterns=["b/c"]), {"/p/b/c/deep.txt": "3", "/p/b/one": None, "/p/three": None}),
    (copy("/a", "/p", include_patterns=["**/*.txt"], exclude_patterns=["b/c"]), {"/p/b/two.txt": "2", "/p/b/c": None}),
    (copy("/a", "/p", exclude_patterns=["b", "!b/c"]), {"/p/b/c/deep.txt": "3", "/p/b/one": None, "/p/three": "3"}),
    (copy("/a/link", "/f", followSymlink=True), {"/f": "3"}),
    (copy("/", "/all", dirCopyContents=True), {"/all/a/three": "3"}),
    (copy("/a/three", "/bin", alwaysReplaceExistingDestPaths=True), {"/bin/three": "3"}),
]  # fmt: skip


@pytest.mark.parametrize(("action", "expected"), COPIES, ids=[str(each["copy"]["src"]) for each, _ in COPIES])
def test_copies(daemon: Daemon, busybox: str, action: dict[str, Any], expected: dict[str, str | None]) -> None:
    writer = Writer()
    tree = writer.files(action, inputs=(writer.image(IMAGE), sources(writer)))
    with frontend(daemon) as asked:
        ref = made(asked, writer, tree)
        for path, contents in expected.items():
            if contents is None:
                with pytest.raises(EngineError, match="no such file"):
                    asked("StatFile", {"Ref": ref, "Path": path})
            else:
                assert asked.read(ref, path) == contents.encode()


def test_a_copy_keeps_what_the_files_are_unless_it_is_told(daemon: Daemon) -> None:
    writer = Writer()
    below = sources(writer)
    nothing = writer.files(mkdir("/d"))
    tree = writer.files(
        copy("/a/.", "/kept"),
        copy(
            "/a/three", "/changed", mode=0o751, timestamp=4 * 10**18, owner={"user": {"byID": 8}, "group": {"byID": 9}}
        ),
        copy("/a/three", "/worded", modeStr="u=rw,go=r,a+x"),
        inputs=(nothing, below),
    )
    with frontend(daemon) as asked:
        ref = made(asked, writer, tree)
        kept, changed = stat(asked, ref, "/kept/three"), stat(asked, ref, "/changed")
        assert (kept["uid"], kept["gid"], kept["mode"], kept["modTime"]) == (5, 6, 0o644, 10**18)
        assert (changed["uid"], changed["gid"], changed["mode"], changed["modTime"]) == (8, 9, 0o751, 4 * 10**18)
        assert stat(asked, ref, "/worded")["mode"] == 0o755
        assert stat(asked, ref, "/kept/link")["linkname"] == "three"
        assert stat(asked, ref, "/kept/out")["mode"] & GO_LINK


def test_owners_by_name(daemon: Daemon) -> None:
    """As the passwd and group of the tree that the action names say it; who is not there is root, as with BuildKit."""
    writer = Writer()
    lists = writer.files(
        mkdir("/etc"),
        mkfile("/etc/passwd", b"root:x:0:0::/:\njoe:x:7:70::/:\n"),
        mkfile("/etc/group", b"wheel:x:80:\n"),
    )
    joe, wheel, nobody = ({"byName": {"name": name, "input": 0}} for name in ("joe", "wheel", "nobody"))
    tree = writer.files(
        mkfile("/one", owner={"user": joe}),
        mkfile("/two", owner={"user": joe, "group": wheel}),
        mkfile("/three", owner={"user": nobody, "group": nobody}),
        inputs=(lists,),
    )
    with frontend(daemon) as asked:
        ref = made(asked, writer, tree)
        found = [(each["uid"], each["gid"]) for each in (stat(asked, ref, path) for path in ("/one", "/two", "/three"))]
    assert found == [(7, 70), (7, 80), (0, 0)]


def test_one_operation_has_several_outputs(daemon: Daemon) -> None:
    """Its actions form a graph of their own: here one copies what another has made, which is an output too."""
    writer = Writer()
    op = {
        "file": {
            "actions": [
                {"input": -1, "secondaryInput": -1, "output": 1, **mkfile("/f", b"first")},
                {"input": -1, "secondaryInput": -1, "output": -1, **mkdir("/d")},
                {"input": 1, "secondaryInput": 0, "output": 0, "copy": {**COPY, "src": "/f", "dest": "/d/g"}},
            ]
        }
    }
    with frontend(daemon) as asked:
        one = writer.add(op)
        copied, first = (made(asked, writer, Made(one.digest, index)) for index in (0, 1))
        assert asked.read(copied, "/d/g") == b"first" and asked.names(copied, "/") == ["d"]
        assert asked.names(first, "/") == ["f"]


def test_an_archive_is_unpacked_where_that_is_asked_for(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    base = writer.image(IMAGE)
    archive = writer.run(base, "sh", "-ec", "mkdir /p; echo x > /p/f; tar -czf /a.tar.gz -C /p f")
    tree = writer.files(
        copy("/a.tar.gz", "/unpacked", attemptUnpackDockerCompatibility=True),
        copy("/p/f", "/plain", attemptUnpackDockerCompatibility=True),
        inputs=(base, archive),
    )
    with frontend(daemon) as asked:
        ref = made(asked, writer, tree)
        assert asked.read(ref, "/unpacked/f") == b"x\n" == asked.read(ref, "/plain")


def test_trees_are_laid_over_each_other(daemon: Daemon) -> None:
    writer = Writer()
    one = writer.files(mkfile("/one", b"1"), mkfile("/both", b"1"))
    two = writer.files(mkfile("/two", b"2"), mkfile("/both", b"2"))
    merged = writer.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, one, two)
    with frontend(daemon) as asked:
        ref = made(asked, writer, merged)
        assert asked.names(ref, "/") == ["both", "one", "two"] and asked.read(ref, "/both") == b"2"
        other = writer.add({"merge": {"inputs": [{"input": 1}, {"input": -1}, {"input": 0}]}}, one, two, two)
        ref = made(asked, writer, other)
        assert asked.names(ref, "/") == ["both", "one", "two"] and asked.read(ref, "/both") == b"1"


@pytest.mark.parametrize("related", [True, False])
def test_the_difference_of_trees(daemon: Daemon, busybox: str, related: bool) -> None:
    """Of trees that share their lowest layers, and of those that do not: laid over the first it gives the second."""
    writer = Writer()
    base = writer.files(mkdir("/d"), mkfile("/d/gone"), mkfile("/d/same", b"s"), mkfile("/d/other", b"1"))
    if related:
        upper = writer.files({"rm": {"path": "/d/gone"}}, mkfile("/d/other", b"22"), mkfile("/new"), inputs=(base,))
    else:
        time = {"timestamp": 5 * 10**18}
        base = writer.files(mkdir("/d"), mkfile("/d/gone"), mkfile("/d/same", b"s", **time), mkfile("/d/other", b"1"))
        upper = writer.files(mkdir("/d"), mkfile("/d/same", b"s", **time), mkfile("/d/other", b"22"), mkfile("/new"))
    sides = {"diff": {"lower": {"input": 0}, "upper": {"input": 1}}}
    difference = writer.add(sides, base, upper)
    whole = writer.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, base, difference)
    with frontend(daemon) as asked:
        alone, laid = made(asked, writer, difference), made(asked, writer, whole)
        assert {"other"} <= set(asked.names(alone, "/d")) and "same" not in asked.names(alone, "/d")
        assert asked.names(laid, "/d") == ["other", "same"] and asked.read(laid, "/d/other") == b"22"
        nothing = writer.add({"diff": {"lower": {"input": -1}, "upper": {"input": 0}}}, base)
        assert asked.names(made(asked, writer, nothing), "/d") == ["gone", "other", "same"]


def test_a_graph_within_a_graph(daemon: Daemon) -> None:
    inner, writer = Writer(), Writer()
    data = protobuf.encode(ops.Definition, inner.definition(inner.files(mkfile("/inner", b"i"))))
    file = writer.files(mkfile("/graph", data))
    build = {
        "builder": -1,
        "inputs": {"buildkit.llb.definition": {"input": 0}},
        "attrs": {"llbbuild.filename": "/graph"},
    }
    with frontend(daemon) as asked:
        assert asked.read(made(asked, writer, writer.add({"build": build}, file)), "/inner") == b"i"
        circle = protobuf.encode(ops.Definition, writer.definition(file))
        for _ in range(10):
            writer = Writer()
            within = writer.add({"build": build}, writer.files(mkfile("/graph", circle)))
            circle = protobuf.encode(ops.Definition, writer.definition(within))
        with pytest.raises(EngineError, match="more than 8 times"):
            made(asked, writer, within)


ATTACKS = [
    (copy("/a/out", "/etc/stolen", followSymlink=True), "not found"),
    (copy("../../../../etc/shadow", "/x"), "not found"),
    (copy("/a/b/../../../../etc/shadow", "/x"), "not found"),
    (mkfile("/a\0b"), "NUL"),
    (copy("/a", "/p", include_patterns=["a\nb"]), "line's end"),
    (copy("/a", "/p", exclude_patterns=["[a-"]), "syntax error in pattern"),
    (copy("/a", "/bin/busybox"), "cannot copy to non-directory|not a directory"),
    (mkdir("/bin/busybox/x"), "not a directory"),
    (mkfile("/"), "is a directory"),
    (copy("/a/three", "/deep/er", createDestPath=False), "no such file"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "words"), ATTACKS, ids=[str(place) for place in range(len(ATTACKS))])
def test_what_would_lead_out_or_cannot_be_is_refused(
    daemon: Daemon, busybox: str, action: dict[str, Any], words: str
) -> None:
    writer = Writer()
    tree = writer.files(action, inputs=(writer.image(IMAGE), sources(writer)))
    with frontend(daemon) as asked, pytest.raises(EngineError, match=words):
        made(asked, writer, tree)


def test_links_of_the_tree_lead_nowhere_but_into_it(daemon: Daemon, tmp_path: Any) -> None:
    """What is written or removed by way of a link to the host's paths is within the tree."""
    (tmp_path / "kept").write_text("the host's")
    writer = Writer()
    tree = writer.files(
        {"symlink": {"oldpath": str(tmp_path), "newpath": "/l", "timestamp": -1}},
        mkdir("/l", makeParents=True),
        mkfile("/l/written", b"x"),
        {"rm": {"path": "/l/kept", "allowNotFound": True}},
        copy("/a/three", "/l/copied"),
        {"symlink": {"oldpath": "../../../..", "newpath": "/up", "timestamp": -1}},
        mkfile("/up/top", b"y"),
        inputs=(writer.files(mkdir("/x")), sources(writer)),
    )
    with frontend(daemon) as asked:
        ref = made(asked, writer, tree)
        assert asked.read(ref, f"{tmp_path}/written") == b"x" and asked.read(ref, f"{tmp_path}/copied") == b"3"
        assert asked.read(ref, "/top") == b"y"
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
