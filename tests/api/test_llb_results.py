"""What comes of the results of graphs: of none, of those of several platforms, and of what frontends say of them."""

import contextlib
import io
import json
import tarfile
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from engine.daemon.buildkit.exporters.filesend import PATH
from engine.daemon.buildkit.messages import control, fsutil
from engine.daemon.buildkit.messages.fsutil import Packet
from engine.daemon.buildkit.serving import Call, Method
from engine.daemon.images import platform as platforms
from engine.errors import EngineError
from tests.harness.daemon import Daemon
from tests.harness.frontends import UPGRADE, Frontend, dial, frontend
from tests.harness.graphs import COPY, MKDIR, MKFILE, Made, Writer
from tests.harness.links import running

HOST = platforms.host()
ENDING = 20


def answered(asked: Frontend, result: dict[str, Any] | None = None) -> dict[str, str]:
    """What the client is told once its frontend has returned this, or without a frontend."""
    if result is not None:
        asked("Return", {"result": result})
    asked.thread.join(ENDING)
    (answer,) = asked.ended
    assert not isinstance(answer, EngineError), answer
    return answer["ExporterResponse"]


def image(**attrs: str) -> dict[str, Any]:
    """The exporter of an image."""
    return {"Type": "image", "Attrs": {key.replace("_", "-"): value for key, value in attrs.items()}}


def test_a_definition_without_operations_is_an_empty_tree(daemon: Daemon) -> None:
    """No frontend is waited for; the image has no layers, as buildkitd's has none."""
    with frontend(daemon, Definition={}, Exporters=[image(name="nothing:latest")]) as asked:
        told = answered(asked)
    found = daemon.request("GET", "/images/nothing/json").json()
    assert found["Id"] == told["containerimage.digest"]
    if (HOST.architecture, HOST.variant) == ("amd64", ""):  # what a buildkitd of 0.34 has answered
        assert found["Id"] == "sha256:6cddc7c291e3d05059404a670e53a4e87166bd3f22ea50b9ae60f9d0c4423775"
    assert not found["RootFS"].get("Layers") and found["Os"] == "linux"
    daemon.request("DELETE", "/images/nothing")


@pytest.mark.parametrize("result", [{"ref": {}}, {}, {"refs": {"refs": {}}}])
def test_a_frontend_may_return_no_files(daemon: Daemon, result: dict[str, Any]) -> None:
    with frontend(daemon, Exporters=[image(name="nothing:latest")]) as asked:
        answered(asked, result)
    assert not daemon.request("GET", "/images/nothing/json").json()["RootFS"].get("Layers")
    daemon.request("DELETE", "/images/nothing")


class Client:
    """A client that takes what a daemon exports. files: the contents by their paths, None for what is no file"""

    def __init__(self) -> None:
        self.files: dict[str, bytes | None] = {}
        self.archive = b""

    def take_files(self, call: Call[Packet, Packet]) -> None:
        """A directory: all of its files are asked for."""
        names: list[str] = []
        while (packet := call.receive()) is not None and packet["stat"] is not None:
            names.append(packet["stat"]["path"])
            self.files[names[-1]] = None
            if not packet["stat"]["mode"] & 1 << 31:
                self.files[names[-1]] = b""
                call.send({"type": fsutil.REQUEST, "ID": len(names) - 1})
        wanted = sum(data is not None for data in self.files.values())
        while wanted and (packet := call.receive()) is not None:
            before = self.files[names[packet["ID"]]]
            assert before is not None
            self.files[names[packet["ID"]]] = before + packet["data"]
            wanted -= not packet["data"]
        call.send({"type": fsutil.FINISH})
        for _ in call.every():
            pass

    def take_archive(self, call: Call[control.BytesMessage, control.BytesMessage]) -> None:
        """An archive."""
        self.archive = b"".join(message["data"] for message in call.every())


def members(archive: bytes) -> set[str]:
    """The names in an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {name.rstrip("/") for name in opened.getnames()}


def contents(archive: bytes) -> list[bytes]:
    """The contents of its files."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        files = [opened.extractfile(each) for each in opened if each.isfile()]
        return [file.read() for file in files if file is not None]


@contextlib.contextmanager
def session(daemon: Daemon, archive: bool = False) -> Iterator[tuple[str, Client]]:
    """The id of a client's session, and the client. archive: it takes one, and no directory"""
    id, client = uuid.uuid4().hex, Client()
    fields = f"X-Docker-Expose-Session-Uuid: {id}\r\nX-Docker-Expose-Session-Grpc-Method: {PATH}\r\n"
    method = (
        Method(control.BytesMessage, control.BytesMessage, client.take_archive)
        if archive
        else Method(Packet, Packet, client.take_files)
    )
    with running(dial(daemon, "/session", UPGRADE + fields), False, {PATH: method}):
        yield id, client


def two(asked: Frontend, *ids: str) -> dict[str, Any]:
    """A result for platforms of these ids, each with a file of that name."""
    refs = {}
    for number, id in enumerate(ids):
        writer = Writer()
        made = writer.files({"mkfile": {**MKFILE, "path": f"/file{number}", "data": id.encode()}})
        refs[id] = {"id": asked.solve(writer.definition(made))}
    platform = {"os": HOST.os, "architecture": HOST.architecture}
    told = {"Platforms": [{"ID": id, "Platform": platform} for id in ids]}
    return {"refs": {"refs": refs}, "metadata": {"refs.platforms": json.dumps(told).encode()}}


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("", {"one_x": None, "one_x/file0": b"one/x", "__": None, "__/file1": b".."}),
        ("false", {"file0": b"one/x", "file1": b".."}),
    ],
)
@pytest.mark.parametrize("kind", ["local", "tar"])
def test_the_files_of_several_results(daemon: Daemon, kind: str, split: str, names: dict[str, bytes | None]) -> None:
    """Each in a directory with the name that its frontend has for it, though all are for one platform."""
    attrs = {"platform-split": split} if split else {}
    exporter = {"Type": kind, "Attrs": attrs}
    with (
        session(daemon, archive=kind == "tar") as (id, client),
        frontend(daemon, Session=id, Exporters=[exporter]) as asked,
    ):
        answered(asked, two(asked, "one/x", ".."))
    if kind == "tar":
        with tarfile.open(fileobj=io.BytesIO(client.archive)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                client.files[member.name] = file.read() if file is not None else None
    assert client.files == names


def test_a_platform_without_files(daemon: Daemon) -> None:
    """One of several results may be empty."""
    with session(daemon) as (id, client):
        with frontend(daemon, Session=id, Exporters=[{"Type": "local"}]) as asked:
            result = two(asked, "one", "none")
            result["refs"]["refs"]["none"] = {}
            answered(asked, result)
    assert client.files == {"one": None, "one/file0": b"one", "none": None}


@pytest.mark.parametrize(
    ("platforms_told", "words"),
    [
        (None, "build result contains multiple refs without platforms mapping"),
        ({"Platforms": [{"ID": "other", "Platform": {"os": "linux", "architecture": "arm64"}}]}, "for ID other"),
        ({"Platforms": [{"ID": "", "Platform": {"os": "linux", "architecture": "arm64"}}]}, "empty platform key"),
        ({"Platforms": [{"ID": "one", "Platform": {"os": "linux"}}]}, "invalid platform value"),
        ({"Platforms": []}, "invalid empty platforms index"),
    ],
)
def test_platforms_that_are_not_told_well(daemon: Daemon, platforms_told: Any, words: str) -> None:
    with frontend(daemon) as asked:
        result = two(asked, "one")
        result["metadata"] = {} if platforms_told is None else {"refs.platforms": json.dumps(platforms_told).encode()}
        asked("Return", {"result": result})
        asked.thread.join(ENDING)
    (error,) = asked.ended
    assert isinstance(error, EngineError) and words in str(error), error


def test_several_platforms_and_one_tree(daemon: Daemon) -> None:
    told = [{"ID": each, "Platform": {"os": "linux", "architecture": each}} for each in ("amd64", "arm64")]
    metadata = {"refs.platforms": json.dumps({"Platforms": told}).encode()}
    with frontend(daemon) as asked:
        asked("Return", {"result": {"ref": {}, "metadata": metadata}})
        asked.thread.join(ENDING)
    (error,) = asked.ended
    assert isinstance(error, EngineError) and "without multi-platform enabled" in str(error), error


def test_a_frontend_tells_its_client(daemon: Daemon) -> None:
    """What has names that begin so, and nothing else."""
    metadata = {"frontend.returned": b"true", "not-frontend.not-returned": b"false", "frontendnot.returned": b"false"}
    with frontend(daemon) as asked:
        assert answered(asked, {"ref": {}, "metadata": metadata}) == {"frontend.returned": "true"}


def test_a_frontend_names_and_annotates_the_image(daemon: Daemon) -> None:
    """Its annotations stand beside the client's, and in the place of those with the same name."""
    name = f"named-{uuid.uuid4().hex[:8]}"
    metadata = {"image.name": name.encode(), "annotation.one": b"frontend", "annotation-manifest.three": b"3"}
    attrs = {"annotation.one": "client", "annotation.two": "client"}
    with session(daemon, archive=True) as (id, client):
        oci = {"Type": "oci", "Attrs": {"name": "*", **attrs}}
        with frontend(daemon, Session=id, Exporters=[image(name="*"), oci]) as asked:
            told = answered(asked, {"ref": {}, "metadata": metadata})
    assert told["image.name"] == f"docker.io/library/{name}:latest"
    assert daemon.request("GET", f"/images/{name}/json").status == 200
    (manifest,) = [each for data in contents(client.archive) if "layers" in (each := json.loads(data))]
    assert manifest["annotations"] == {"one": "frontend", "two": "client", "three": "3"}
    daemon.request("DELETE", f"/images/{name}")


def test_a_client_says_what_the_image_is(daemon: Daemon) -> None:
    """By the name under which a frontend would."""
    name = f"named-{uuid.uuid4().hex[:8]}"
    document = json.dumps({"config": {"Env": ["A=b"], "Cmd": ["c"]}, "os": "linux", "architecture": HOST.architecture})
    writer = Writer()
    definition = writer.definition(writer.files({"mkfile": {**MKFILE, "path": "/f", "data": b"x"}}))
    exporter = image(name=name, **{"containerimage.config": document})
    with frontend(daemon, Definition=definition, Exporters=[exporter]) as asked:
        answered(asked)
    found = daemon.request("GET", f"/images/{name}/json").json()
    assert (found["Config"]["Env"], found["Config"]["Cmd"], len(found["RootFS"]["Layers"])) == (["A=b"], ["c"], 1)
    daemon.request("DELETE", f"/images/{name}")


def deletions(writer: Writer, related: bool) -> Made:
    """The difference of a tree from one below it: a file and a directory are gone, and another one is made anew."""
    dirs = [{"mkdir": {**MKDIR, "path": path}} for path in ("/d", "/gone", "/anew")]
    files = [{"mkfile": {**MKFILE, "path": path, "data": b"x"}} for path in ("/d/f", "/gone/f", "/anew/f")]
    lower = writer.files(*dirs, *files)
    rm = [{"rm": {"path": path}} for path in ("/d/f", "/gone", "/anew")]
    made = {"mkfile": {**MKFILE, "path": "/anew/g", "data": b"g"}}
    if related:
        upper = writer.files(*rm, dirs[2], made, inputs=(lower,))
    else:
        upper = writer.files(dirs[0], dirs[2], made)
    return writer.add({"diff": {"lower": {"input": 0}, "upper": {"input": 1}}}, lower, upper)


@pytest.mark.parametrize("related", [True, False])
@pytest.mark.parametrize("kind", ["local", "tar", "oci"])
def test_what_a_difference_takes_away_is_in_its_layer_and_among_no_files(
    daemon: Daemon, kind: str, related: bool
) -> None:
    writer = Writer()
    definition = writer.definition(deletions(writer, related))
    with session(daemon, archive=kind != "local") as (id, client):
        exporter = {"Type": kind, "Attrs": {}}
        with frontend(daemon, Session=id, Definition=definition, Exporters=[exporter]) as asked:
            answered(asked)
    names = set(client.files) if kind == "local" else members(client.archive)
    if kind == "oci":
        (layer,) = [data for data in contents(client.archive) if data[:2] == b"\x1f\x8b"]
        names = members(layer)
        assert {"d/.wh.f", ".wh.gone"} <= names and names & {"anew/.wh..wh..opq", "anew/.wh.f"}, names
        names = {name for name in names if ".wh." not in name}
    assert names == {"d", "anew", "anew/g"}


@pytest.mark.parametrize("related", [True, False])
def test_a_frontend_sees_no_files_that_a_difference_takes_away(daemon: Daemon, related: bool) -> None:
    """Neither in the tree itself nor in a copy of it, nor where it lies on a tree that has none of its directories."""
    writer = Writer()
    difference = deletions(writer, related)
    copy = {"copy": {**COPY, "src": "/", "dest": "/", "dirCopyContents": True}, "input": -1, "secondaryInput": 0}
    copied = writer.files(copy, inputs=(difference,))
    other = writer.files({"mkfile": {**MKFILE, "path": "/other", "data": b"x"}})
    merged = writer.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, other, difference)
    with frontend(daemon) as asked:
        for tree, more in ((difference, []), (copied, []), (merged, ["other"])):
            ref = asked.solve(writer.definition(tree), Evaluate=True)
            assert asked.names(ref, "/") == ["anew", "d", *more]
            assert asked.names(ref, "/d") == [] and asked.names(ref, "/anew") == ["g"]
            with pytest.raises(EngineError, match="no such file or directory"):
                asked("StatFile", {"Ref": ref, "Path": "/d/f"})
