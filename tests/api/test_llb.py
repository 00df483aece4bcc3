"""Graphs of operations (LLB) as a frontend brings them: what comes of each kind, and what is refused."""

import io
import json
import os
import re
import tarfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.messages.known import Status
from engine.errors import EngineError
from engine.protocols import grpc, protobuf
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.frontends import Frontend, frontend
from tests.harness.graphs import MKFILE, Made, Writer
from tests.harness.registry import Registry

IMAGE = "busybox:latest"


def refused(error: pytest.ExceptionInfo[EngineError], code: int, words: str) -> None:
    """The status with which a call failed."""
    assert isinstance(error.value, grpc.Failed)
    assert error.value.status.code == code, error.value.status
    assert words in error.value.status.words


def test_an_image_is_a_tree(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    with frontend(daemon) as asked:
        ref = asked.solve(writer.definition(writer.image(IMAGE)))
        assert "bin" in asked.names(ref, "/")
        assert asked("StatFile", {"Ref": ref, "Path": "/bin"})["stat"]["mode"] & 1 << 31
        asked("Evaluate", {"Ref": ref})


def test_the_document_of_an_image(daemon: Daemon, busybox: str) -> None:
    with frontend(daemon) as asked:
        found = asked("ResolveImageConfig", {"Ref": IMAGE, "ResolveMode": "local"})
        assert json.loads(found["Config"])["os"] == "linux" and found["Digest"] == busybox
        op = {"identifier": f"docker-image://{IMAGE}", "attrs": {}}
        told = asked("ResolveSourceMeta", {"Source": op})
        assert (told["Image"]["Digest"], told["Image"]["Config"]) == (found["Digest"], found["Config"])


def made(asked: Frontend, writer: Writer, result: Made) -> str:
    """The id of what comes of it."""
    return asked.solve(writer.definition(result), Evaluate=True)


def test_a_command(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    script = (
        "echo $A $(pwd) $(id -u):$(id -g) $(hostname) > /tmp/out; cat /etc/hosts > /tmp/hosts; ulimit -n > /tmp/limit"
    )
    meta = {
        "env": ["A=b"],
        "cwd": "/tmp",
        "user": "7:8",
        "hostname": "somewhere",
        "extraHosts": [{"Host": "other", "IP": "10.9.8.7"}],
        "ulimit": [{"Name": "nofile", "Soft": 77, "Hard": 78}],
    }
    base = writer.run(writer.image(IMAGE), "sh", "-c", "mkdir -p /tmp; chmod 1777 /tmp")
    with frontend(daemon) as asked:
        ref = made(asked, writer, writer.run(base, "sh", "-ec", script, meta=meta))
        assert asked.read(ref, "/tmp/out") == b"b /tmp 7:8 somewhere\n"
        assert b"10.9.8.7\tother" in asked.read(ref, "/tmp/hosts")
        assert asked.read(ref, "/tmp/limit") == b"77\n"


def test_a_command_finds_its_tree_as_it_is(daemon: Daemon, busybox: str) -> None:
    """Without the places that a container's root has, and a link in one of them is no directory then."""
    with tarfile.open(fileobj=io.BytesIO(rootfs.busybox())) as told:
        files = [(each, told.extractfile(each)) for each in told if each.name.strip("./").split("/")[0] != "etc"]
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as made_of:
            for info, content in files:
                made_of.addfile(info, content)
            link = tarfile.TarInfo("etc")
            link.type, link.linkname = tarfile.SYMTYPE, "usr/etc"
            made_of.addfile(link)
    daemon.import_image(archive.getvalue(), "linked:latest")
    writer = Writer()
    script = "readlink /etc; ls -d /.dockerenv /etc/mtab; rm -f /.dockerenv; echo new > /etc/new"
    command = writer.run(writer.image("linked:latest"), "/bin/sh", "-c", f"({script}) > /out 2>&1")
    with frontend(daemon) as asked:
        ref = made(asked, writer, command)
        assert asked.read(ref, "/out").splitlines() == [
            b"usr/etc",
            b"ls: /.dockerenv: No such file or directory",
            b"ls: /etc/mtab: No such file or directory",
        ]
        assert "new" in asked.names(ref, "/usr/etc")
    daemon.request("DELETE", "/images/linked?force=1")


def test_a_command_is_run_once(daemon: Daemon, busybox: str) -> None:
    """The next build finds what it has made, unless it is to be made anew; what it writes is told under its digest."""
    seen = []
    for about in ({}, {}, {"ignore_cache": True}):
        writer = Writer()
        said = {"description": {"llb.customname": "the time"}, **about}
        command = writer.run(writer.image(IMAGE), "sh", "-c", "cat /proc/uptime | tee /now", about=said)
        with frontend(daemon) as asked:
            seen.append(asked.read(asked.solve(writer.definition(command)), "/now"))
            asked("Return", {"result": {"ref": {}}})
            told = [each for event in asked.events() for each in event["vertexes"] if each["digest"] == command.digest]
        assert {each["name"] for each in told} == {"the time"} and told[-1]["completed"]
        assert told[-1]["cached"] == (len(seen) == 2)
    assert seen[0] == seen[1] != seen[2]


def test_a_command_that_fails(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    base = writer.image(IMAGE)
    failing = writer.run(base, "sh", "-c", "echo words; exit 7")
    place: ops.Location = {"ranges": [{"start": {"line": 2}, "end": {"line": 2}}]}
    writer.source = {
        "infos": [{"filename": "F", "data": b"one\ntwo\n"}],
        "locations": {failing.digest: {"locations": [place]}},
    }
    with frontend(daemon) as asked:
        with pytest.raises(EngineError) as caught:
            made(asked, writer, failing)
        refused(caught, grpc.UNKNOWN, 'process "sh -c echo words; exit 7" did not complete successfully: exit code: 7')
        status = protobuf.decode(Status, caught.value.status.details)  # type: ignore[attr-defined]
        details = {each["type_url"].rpartition("/")[2]: json.loads(each["value"]) for each in status["details"]}
        assert details["gatewayapi.ExitMessage+json"] == {"Code": 7}
        assert details["errdefs.Vertex+json"] == {"digest": failing.digest}
        (lines,) = details["errdefs.Source+json"]["ranges"]
        assert (lines["start"]["line"], details["errdefs.Source+json"]["info"]["filename"]) == (2, "F")
        allowed = writer.run(base, "sh", "-c", "echo seven > /out; exit 7", meta={"validExitCodes": [7]})
        assert asked.read(made(asked, writer, allowed), "/out") == b"seven\n"


def test_networks_of_a_command(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    base = writer.image(IMAGE)
    with frontend(daemon) as asked:
        none = writer.run(base, "sh", "-c", "ls /sys/class/net > /out", network=ops.NONE)
        assert asked.read(made(asked, writer, none), "/out") == b"lo\n"
        for command, words in (
            (writer.run(base, "true", network=ops.HOST), "network.host is not allowed"),
            (writer.run(base, "true", security=ops.INSECURE), "security.insecure is not allowed"),
        ):
            with pytest.raises(EngineError) as caught:
                made(asked, writer, command)
            refused(caught, grpc.PERMISSION_DENIED, words)


def test_a_command_gets_what_the_daemon_grants_and_its_client_asks_for(make_daemon: Callable[..., Daemon]) -> None:
    """The network of the host, and all rights; but not from the cache for a client that asks for neither."""
    daemon = make_daemon("--builder-entitlement", "security-insecure", "--builder-entitlement", "network-host")
    daemon.import_busybox()
    writer = Writer()
    base = writer.image(IMAGE)
    script = "(readlink /proc/self/ns/net; sed -n 's/^CapEff:.//p' /proc/self/status) > /out"
    usual, near, strong = (
        writer.run(base, "sh", "-c", script, **more) for more in ({}, {"network": ops.HOST}, {"security": ops.INSECURE})
    )
    network = os.readlink(f"/proc/{daemon.pid}/ns/net")
    (rights,) = re.findall(r"^CapEff:\t(.*)$", Path(f"/proc/{daemon.pid}/status").read_text(), re.MULTILINE)
    with frontend(daemon, Entitlements=["network.host", "security.insecure"]) as asked:
        found = [asked.read(made(asked, writer, each), "/out").decode().split() for each in (usual, near, strong)]
    assert [[each[0] == network, each[1] == rights] for each in found] == [[False, False], [True, False], [False, True]]
    with frontend(daemon) as asked:
        for command, words in ((near, "network.host is not allowed"), (strong, "security.insecure is not allowed")):
            with pytest.raises(EngineError) as caught:
                made(asked, writer, command)
            refused(caught, grpc.PERMISSION_DENIED, words)


def test_mounts_of_a_command(daemon: Daemon, busybox: str) -> None:
    """A part of another tree, memory, a directory that is dropped, one that is kept, and one that is an output."""
    writer = Writer()
    base = writer.image(IMAGE)
    other = writer.run(base, "sh", "-c", "mkdir /d && echo given > /d/f")
    script = """
        cat /in/f > /made/out; grep -c ' /fast tmpfs' /proc/mounts >> /made/out; ! touch /in/x 2> /dev/null
        touch /fast/x /gone/x; cat /gone/d/f >> /made/out
        echo one >> /kept/log; wc -l < /kept/log > /count; echo of > /of
    """
    mounts: tuple[ops.Mount, ...] = (
        {"input": 1, "dest": "/in", "selector": "d", "readonly": True, "output": -1},
        {"input": -1, "dest": "/fast", "output": -1, "mountType": ops.TMPFS, "TmpfsOpt": {"size": 1 << 20}},
        {"input": 1, "dest": "/gone", "output": -1},
        {"input": -1, "dest": "/kept", "output": -1, "mountType": ops.CACHE, "cacheOpt": {"ID": "llb"}},
        {"input": -1, "dest": "/made", "output": 1},
        {"input": 1, "dest": "/same", "output": 2, "readonly": True},
        {"input": 1, "dest": "/more", "output": 3},
    )
    with frontend(daemon) as asked:
        run = writer.run(base, "sh", "-ec", script + "echo more > /more/d/g", mounts=mounts, inputs=(other,))
        root, out, same, more = (made(asked, writer, Made(run.digest, index)) for index in range(4))
        assert asked.read(root, "/count") == b"1\n" and asked.read(root, "/of") == b"of\n"
        assert asked.names(out, "/") == ["out"] and asked.read(out, "/out") == b"given\n1\ngiven\n"
        assert asked.names(same, "/d") == ["f"] and asked.names(more, "/d") == ["f", "g"]
        assert not {"in", "fast", "gone", "kept", "made", "same", "more"} & set(asked.names(root, "/"))
        again = writer.run(base, "sh", "-ec", script, mounts=mounts, inputs=(other,))
        assert asked.read(made(asked, writer, again), "/count") == b"2\n"


def test_a_command_on_nothing(daemon: Daemon, busybox: str) -> None:
    """Its root is empty, and its program is in a mount; as with BuildKit the places of its file systems stay."""
    writer = Writer()
    base = writer.image(IMAGE)
    op = {
        "exec": {
            "meta": {"args": ["/tools/bin/busybox", "mkdir", "/made"], "cwd": "/"},
            "mounts": [
                {"input": -1, "dest": "/", "output": 0},
                {"input": 0, "dest": "/tools", "output": -1, "readonly": True},
            ],
        }
    }
    with frontend(daemon) as asked:
        assert asked.names(made(asked, writer, writer.add(op, base)), "/") == ["dev", "made", "proc", "sys"]


def test_what_there_is_not(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    with frontend(daemon) as asked:
        for method in ("Evaluate", "ReadFile", "ReadDir", "StatFile"):
            with pytest.raises(EngineError) as caught:
                asked(method, {"Ref": "0" * 32})
            refused(caught, grpc.NOT_FOUND, "no such ref")
        with pytest.raises(EngineError) as caught:
            asked("Return", {"result": {"ref": {"id": "another's"}}})
        refused(caught, grpc.NOT_FOUND, "no such ref")
        ref = asked.solve(writer.definition(writer.image(IMAGE)))
        with pytest.raises(EngineError) as caught:
            asked.read(ref, "/no/such/file")
        refused(caught, grpc.NOT_FOUND, "no such file")
        with pytest.raises(EngineError) as caught:
            asked.read(ref, "/bin")
        refused(caught, grpc.INVALID_ARGUMENT, "not a regular file")


@pytest.mark.parametrize(
    ("op", "code", "words"),
    [
        ({"source": {"identifier": "moon://a"}}, grpc.UNIMPLEMENTED, "the source moon://a is not built"),
        ({"source": {"identifier": "docker-image://A B"}}, grpc.INVALID_ARGUMENT, "invalid reference format"),
        ({"source": {"identifier": "engine-result://0"}}, grpc.NOT_FOUND, "of a build that has ended"),
        ({"source": {"identifier": "local://x"}}, grpc.NOT_FOUND, "no active session"),
    ],
)
def test_a_source_that_there_is_not(daemon: Daemon, op: dict[str, Any], code: int, words: str) -> None:
    writer = Writer()
    with frontend(daemon) as asked, pytest.raises(EngineError) as caught:
        asked("Evaluate", {"Ref": asked.solve(writer.definition(writer.add(op)))})
    refused(caught, code, words)


def test_a_result_names_itself_for_another_build(daemon: Daemon, busybox: str) -> None:
    """What a client gets is a definition, which it may put into the graph of another build while the first one is."""
    writer = Writer()
    with frontend(daemon) as one, frontend(daemon) as other:
        asked = {"Definition": writer.definition(writer.image(IMAGE)), "allowResultReturn": True}
        found = one("Solve", {**asked, "allowResultArrayRef": True})["result"]["ref"]
        assert "bin" in other.names(other.solve(found["ops"]), "/")
        with pytest.raises(EngineError) as caught:
            other.names(found["id"], "/")
        refused(caught, grpc.NOT_FOUND, "no such ref")


def test_an_old_client_gets_an_id(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    with frontend(daemon) as asked:
        found = asked("Solve", {"Definition": writer.definition(writer.image(IMAGE))})
        assert found["ref"] and found["ref"] == found["result"]["refDeprecated"]
        assert "bin" in asked.names(found["ref"], "/")
        asked("Return", {"result": {"refDeprecated": found["ref"]}})


def test_a_warning_reaches_whoever_watches(daemon: Daemon) -> None:
    with frontend(daemon) as asked:
        asked("Warn", {"digest": "sha256:1", "level": 1, "short": b"words", "detail": [b"more"], "url": "https://x/"})
        asked("Return", {"result": {"ref": {}}})
        (warning,) = [each for event in asked.events() for each in event["warnings"]]
    assert (warning["short"], warning["detail"], warning["url"]) == (b"words", [b"more"], "https://x/")


def test_what_is_not_built_is_said(daemon: Daemon) -> None:
    writer = Writer()
    image = writer.definition(writer.image(IMAGE))
    with frontend(daemon) as asked:
        for method, message in (
            ("Solve", {"CacheImports": [{"Type": "gha"}]}),
            ("Solve", {"SourcePolicies": [{"version": 2}], "Definition": image}),
            ("Solve", {"Frontend": "moon.v0"}),
            ("Solve", {"Final": True}),
        ):
            with pytest.raises(EngineError) as caught:
                asked(method, message)
            refused(caught, grpc.UNIMPLEMENTED, "not built in this engine")
        with pytest.raises(EngineError) as caught:
            asked("Solve", {"Frontend": "dockerfile.v0", "Definition": image})
        refused(caught, grpc.INVALID_ARGUMENT, "both Definition and Frontend")


def part_as_root(writer: Writer) -> Made:
    root: ops.Mount = {"input": 0, "dest": "/", "selector": "bin", "output": 0}
    return writer.add({"exec": {"meta": {"args": ["/busybox"], "cwd": "/"}, "mounts": [root]}}, writer.image(IMAGE))


def other_builder(writer: Writer) -> Made:
    inputs = {"buildkit.llb.definition": {"input": 0}}
    return writer.add({"build": {"builder": 0, "inputs": inputs}}, directory_of(writer, "one"))


def other_worker(writer: Writer) -> Made:
    return writer.add({"source": {"identifier": f"docker-image://{IMAGE}"}, "constraints": {"filter": ["a==b"]}})


def directory_of(writer: Writer, name: str) -> Made:
    """A tree of one file."""
    return writer.files({"mkfile": {**MKFILE, "path": f"/{name}", "data": b"x"}})


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (part_as_root, "a part of a tree as the root of a command"),
        (other_builder, "a build by another builder than that of graphs"),
        (other_worker, "constraints that choose a worker"),
    ],
)
def test_what_is_not_built_of_a_graph_is_said(
    daemon: Daemon, busybox: str, write: Callable[[Writer], Made], words: str
) -> None:
    """engine/README.md lists it among the limits."""
    writer = Writer()
    with frontend(daemon) as asked, pytest.raises(EngineError) as caught:
        made(asked, writer, write(writer))
    refused(caught, grpc.UNIMPLEMENTED, words)


def directory(writer: Writer, **files: str) -> ops.Definition:
    """A graph that is about these files."""
    actions = [{"mkfile": {**MKFILE, "path": f"/{name}", "data": text.encode()}} for name, text in files.items()]
    return writer.definition(writer.files(*actions))


def test_graphs_stand_for_the_directories_of_a_client(daemon: Daemon, busybox: str) -> None:
    """Nothing of the client's own is asked for, and no .dockerignore counts."""
    mark = uuid.uuid4().hex
    inputs = {
        "context": directory(Writer(), **{"file": mark, ".dockerignore": "file"}),
        "dockerfile": directory(Writer(), File="FROM busybox\nCOPY file .dockerignore /c/\nRUN cat /c/file > /out\n"),
    }
    asked_for = {"Frontend": "dockerfile.v0", "FrontendOpt": {"filename": "File"}, "FrontendInputs": inputs}
    with frontend(daemon) as asked:
        found = asked("Solve", {**asked_for, "allowResultReturn": True, "allowResultArrayRef": True})["result"]
        ref = found["ref"]["id"]
        assert asked.read(ref, "/out") == mark.encode()
        assert asked.names(ref, "/c") == [".dockerignore", "file"]
        with pytest.raises(EngineError, match="failed to read dockerfile: open absent"):
            asked("Solve", {**asked_for, "FrontendOpt": {"filename": "absent"}})
        with pytest.raises(EngineError, match="failed to read dockerfile"):
            asked("Solve", {**asked_for, "FrontendOpt": {"filename": "../../etc/passwd"}})
        asked("Return", {"result": {"ref": {}}})
        names = [vertex["name"] for event in asked.events() for vertex in event["vertexes"]]
        assert not {"[internal] load build context", "[internal] load .dockerignore"} & set(names), names


def test_the_frontend_of_a_client_names_caches(
    daemon: Daemon, busybox: str, own_daemon: Daemon, registry: Registry
) -> None:
    """What one daemon has made another one finds there; a cache that is not there is told of."""
    mark = uuid.uuid4().hex
    cache = {"Type": "registry", "Attrs": {"ref": f"{registry.address}/caches:{mark}"}}
    writer = Writer()
    result = writer.run(writer.image(IMAGE), "sh", "-c", f"echo {mark} > /out")
    with frontend(daemon, Cache={"Exports": [cache]}) as asked:
        ref = made(asked, writer, result)
        asked("Return", {"result": {"ref": {"id": ref}}})
    assert not isinstance(asked.ended[0], EngineError), asked.ended
    none = {"Type": "registry", "Attrs": {"ref": f"{registry.address}/caches:none"}}
    with frontend(own_daemon) as asked:
        asked.solve(writer.definition(result), Evaluate=True, CacheImports=[none, cache])
        asked("Return", {"result": {"ref": {}}})
        vertices = [vertex for event in asked.events() for vertex in event["vertexes"]]
    told = [(each["name"], each["cached"], each["error"]) for each in vertices if each["completed"]]
    assert any(cached and mark in name for name, cached, _ in told), told
    assert any(error and "caches:none" in name for name, _, error in told), told
