"""Attacks by a frontend: a client's own, and the program of an image, whose graphs (LLB) want more than a build may."""

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.daemon.buildkit.messages import ops
from engine.errors import EngineError
from engine.protocols import grpc, protobuf
from tests.harness.contexts import build
from tests.harness.conversations import conversing, room
from tests.harness.daemon import Daemon
from tests.harness.frontends import Frontend, frontend
from tests.harness.graphs import MKDIR, MKFILE, Made, Writer

IMAGE = "busybox:latest"


def refusal(asked: Frontend, writer: Writer, result: Made) -> grpc.Status:
    """How the daemon refuses to make it."""
    with pytest.raises(EngineError) as caught:
        asked.solve(writer.definition(result), Evaluate=True)
    assert isinstance(caught.value, grpc.Failed)
    return caught.value.status


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"security": ops.INSECURE}, "security.insecure is not allowed"),
        ({"network": ops.HOST}, "network.host is not allowed"),
        ({"cdiDevices": [{"name": "vendor.example/all=all"}]}, 'required device "vendor.example/all=all" is not'),
    ],
)
def test_cve_2024_23653_and_ghsa_7236_no_frontend_gives_itself_rights(
    daemon: Daemon, busybox: str, more: dict[str, Any], words: str
) -> None:
    """What a client has not asked for and the daemon does not grant, no graph gets, in whatever way it comes."""
    writer = Writer()
    command = writer.run(writer.image(IMAGE), "true", **more)
    with frontend(daemon) as asked:
        assert words in refusal(asked, writer, command).words
        data = protobuf.encode(ops.Definition, writer.definition(command))
        file = {"mkfile": {**MKFILE, "path": "/buildkit.llb.definition", "data": data}}
        within = {"build": {"builder": -1, "inputs": {"buildkit.llb.definition": {"input": 0}}}}
        assert words in refusal(asked, writer, writer.add(within, writer.files(file))).words


def test_ghsa_7236_a_command_of_a_graph_is_confined_like_any_other(daemon: Daemon, busybox: str) -> None:
    writer = Writer()
    script = (
        "grep -E '^(CapEff|Seccomp|NoNewPrivs)' /proc/self/status > /out; ls /dev > /devices; touch /sys/x 2>> /out"
    )
    with frontend(daemon) as asked:
        command = writer.run(writer.image(IMAGE), "sh", "-c", f"{script}; mount -t tmpfs x /mnt 2>> /out; true")
        ref = asked.solve(writer.definition(command), Evaluate=True)
        found = asked.read(ref, "/out").decode()
        assert "CapEff:\t00000000a80425fb" in found and "Seccomp:\t2" in found, found
        assert "touch: /sys/x: Read-only file system" in found and "mount: " in found
        assert not {"mem", "kmsg", "sda", "vda"} & set(asked.read(ref, "/devices").decode().split())


def test_cve_2024_23653_a_process_of_a_frontends_container_is_confined_like_a_command(
    daemon: Daemon, busybox: str
) -> None:
    """The call that BuildKit had not guarded: its container gets no more than a step, the first process and others."""
    script = "exec 2>&1; grep -E '^(CapEff|Seccomp):' /proc/self/status; ls /dev; touch /sys/x; mount -t tmpfs x /mnt"
    with frontend(daemon) as asked, conversing(asked) as talk:
        id = room(asked)
        for process in ("first", "second"):
            talk.begin(process, id, "sh", "-c", f"{script}; echo all; cat")
            said = talk.until(process, "File", b"all\n").out[1].decode()
            assert "CapEff:\t00000000a80425fb" in said and "Seccomp:\t2" in said, said
            assert "touch: /sys/x: Read-only file system" in said and "mount: " in said
            assert not {"mem", "kmsg", "sda", "vda"} & set(said.split())
        for process in ("second", "first"):
            talk.send(process, eof=True)
            assert talk.until(process, "Done").code == 0


@pytest.mark.parametrize("path", ["/", "/tmp", "..", "../../tmp", "/l/kept", "/l"])
def test_ghsa_32pv_an_action_on_files_removes_nothing_of_the_host(
    daemon: Daemon, busybox: str, tmp_path: Path, path: str
) -> None:
    (tmp_path / "kept").write_text("the host's")
    with tempfile.TemporaryDirectory(dir="/tmp") as beside:
        _remove_everywhere(daemon, tmp_path, path)
        assert (tmp_path / "kept").read_text() == "the host's"
        assert os.path.isdir(beside) and daemon.root.is_dir()


def _remove_everywhere(daemon: Daemon, tmp_path: Path, path: str) -> None:
    writer = Writer()
    link = {"symlink": {"oldpath": str(tmp_path), "newpath": "/l", "timestamp": -1}}
    for wildcard in (False, True):
        removed = {"rm": {"path": path, "allowWildcard": wildcard, "allowNotFound": True}}
        tree = writer.files({"mkdir": {**MKDIR, "path": "/d"}}, link, removed, inputs=(writer.image(IMAGE),))
        with frontend(daemon) as asked, contextlib.suppress(EngineError):
            asked.solve(writer.definition(tree), Evaluate=True)


def test_cve_2026_33747_a_message_of_a_frontend_writes_nothing_outside(daemon: Daemon, busybox: str) -> None:
    """Ids, names and digests that are paths are names of nothing."""
    writer = Writer()
    base = writer.image(IMAGE)
    with frontend(daemon) as asked:
        for id in ("../../../etc/passwd", "/etc/passwd", "", "\0", "x" * 100_000):
            for method in ("Evaluate", "ReadFile", "ReadDir", "StatFile"):
                with pytest.raises(EngineError, match="no such ref"):
                    asked(method, {"Ref": id})
        cache: ops.Mount = {
            "input": -1, "dest": "/c", "output": -1, "mountType": ops.CACHE, "cacheOpt": {"ID": "../../../../tmp/out"},
        }  # fmt: skip
        asked.solve(writer.definition(writer.run(base, "touch", "/c/x", mounts=(cache,))), Evaluate=True)
        assert not os.path.exists("/tmp/out")
        for dest in ("/../../../tmp/out", "../../tmp/out"):
            mount: ops.Mount = {"input": -1, "dest": dest, "output": -1, "mountType": ops.TMPFS}
            asked.solve(writer.definition(writer.run(base, "true", mounts=(mount,))), Evaluate=True)
        selected: ops.Mount = {"input": 1, "dest": "/m", "output": -1, "selector": "../../../../etc", "readonly": True}
        listed = writer.run(base, "sh", "-c", "ls /m > /out", mounts=(selected,), inputs=(base,))
        ref = asked.solve(writer.definition(listed))
        with contextlib.suppress(EngineError):
            assert b"shadow" not in asked.read(ref, "/out")
        assert not os.path.exists("/tmp/out")


def test_a_link_as_a_selector_shows_its_own_tree(daemon: Daemon, busybox: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    writer = Writer()
    base = writer.image(IMAGE)
    tree = writer.files({"symlink": {"oldpath": str(tmp_path), "newpath": "/l", "timestamp": -1}})
    for readonly in (True, False):
        mount: ops.Mount = {"input": 1, "dest": "/m", "output": -1, "selector": "l", "readonly": readonly}
        command = writer.run(base, "cat", "/m/secret", mounts=(mount,), inputs=(tree,))
        with frontend(daemon) as asked:
            assert "of the host" not in refusal(asked, writer, command).words


def test_graphs_without_end_are_refused_at_once(daemon: Daemon) -> None:
    """A hundred thousand operations, a chain of three thousand, six thousand actions; the daemon serves on."""
    many = Writer(written=[protobuf.encode(ops.Op, {"source": {"identifier": str(n)}}) for n in range(100_000)])
    deep = Writer()
    made = deep.files({"mkdir": {**MKDIR, "path": "/0"}})
    for number in range(3_000):
        made = deep.files({"mkdir": {**MKDIR, "path": f"/{number}"}}, inputs=(made,))
    wide = Writer()
    actions = [{"input": 0, "secondaryInput": -1, "output": -1, "rm": {"path": "/x"}}] * 6_000
    for writer, result in (
        (many, Made("sha256:0")),
        (deep, made),
        (wide, wide.add({"file": {"actions": actions}}, wide.image("a"))),
    ):
        with frontend(daemon) as asked:
            assert refusal(asked, writer, result).code in (grpc.INVALID_ARGUMENT, grpc.RESOURCE_EXHAUSTED)
    assert daemon.request("GET", "/_ping").status == 200


@pytest.fixture
def hostile(daemon: Daemon, busybox: str) -> Iterator[Any]:
    """Makes an image whose program, as a frontend, runs a script."""
    made: list[str] = []

    def make(script: str) -> str:
        name = f"hostile-{len(made)}"
        lines = ("FROM busybox", f'ENTRYPOINT ["sh", "-c", {script!r}]'.replace("'", '"'))
        assert build(daemon, "\n".join(lines), t=name).id
        made.append(name)
        return name

    yield make
    for name in made:
        daemon.request("DELETE", f"/images/{name}?force=1")


@pytest.mark.parametrize(
    "script",
    [
        "cat /dev/urandom",
        "yes",
        "printf PRI; sleep 60",
        "exec <&-; exec >&-; sleep 60",
        "while :; do echo x >&2; done",
    ],
)
def test_a_program_that_speaks_no_grpc_is_ended(daemon: Daemon, hostile: Any, script: str) -> None:
    """Whatever it says, or does not: its build ends when its client goes, and its container with it."""
    name = hostile(script)
    containers = len(daemon.request("GET", "/containers/json?all=1").json())
    ended: list[EngineError] = []
    with frontend(daemon) as asked:

        def ask() -> None:
            try:
                asked("Solve", {"Frontend": "gateway.v0", "FrontendOpt": {"source": name}})
            except EngineError as error:
                ended.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(8)
    thread.join(30)
    assert not thread.is_alive() and len(ended) == 1
    assert len(daemon.request("GET", "/containers/json?all=1").json()) == containers


def test_a_frontend_of_an_image_sees_nothing_of_the_host(daemon: Daemon, hostile: Any) -> None:
    """Its options are its variables; what it writes to its standard error is told, so it tells what it sees."""
    name = hostile("id -u >&2; grep CapEff /proc/self/status >&2; ls /run /var/run >&2; env | grep -c OPT >&2; exit 3")
    with frontend(daemon) as asked:
        with pytest.raises(EngineError, match="exit code 3"):
            asked("Solve", {"Frontend": "gateway.v0", "FrontendOpt": {"source": name, "a": "b"}})
        asked("Return", {"result": {"ref": {}}})
        said = b"".join(log["msg"] for event in asked.events() for log in event["logs"]).decode()
    assert "CapEff:\t00000000a80425fb" in said and "docker.sock" not in said and said.endswith("2\n"), said
