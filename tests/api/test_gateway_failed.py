"""What a frontend learns of a command that has failed, and looks at: the operation, its inputs and what it has left."""

import json
import os
from typing import Any

import pytest

from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.messages.known import Status
from engine.errors import EngineError
from engine.protocols import grpc, protobuf
from tests.api.test_gateway_exec import nothing_left
from tests.harness.conversations import conversing
from tests.harness.daemon import Daemon
from tests.harness.frontends import Frontend, frontend
from tests.harness.graphs import MKFILE, Made, Writer

__all__ = ["nothing_left"]
pytestmark = pytest.mark.usefixtures("nothing_left")
IMAGE = "busybox:latest"


def failed(asked: Frontend, message: Any) -> dict[str, Any]:
    """What is told of the operation with which a solve failed."""
    with pytest.raises(EngineError) as caught:
        asked("Solve", {**message, "Evaluate": True})
    assert isinstance(caught.value, grpc.Failed)
    status = protobuf.decode(Status, caught.value.status.details)
    (found,) = [each for each in status["details"] if each["type_url"].endswith("/errdefs.Solve+json")]
    told = json.loads(found["value"])
    assert isinstance(told, dict)
    return told


def listed(asked: Frontend, id: str, path: str) -> bytes:
    """What a container of these files says of a path."""
    name = os.urandom(8).hex()
    asked("NewContainer", {"ContainerID": name, "Mounts": [{"dest": "/", "resultID": id}]})
    with conversing(asked) as talk:
        talk.begin("p", name, "cat", path)
        out: bytes = talk.until("p", "Done").out.get(1, b"")
    asked("ReleaseContainer", {"ContainerID": name})
    return out


def test_a_failed_command_of_a_graph_can_be_looked_at(daemon: Daemon, busybox: str) -> None:
    """As it was before and as it is now, in its root and in what would have been another output."""
    writer = Writer()
    other = writer.files({"mkfile": {**MKFILE, "path": "/given", "data": b"given\n"}})
    mounts: tuple[ops.Mount, ...] = (
        {"input": 1, "dest": "/in", "output": -1, "readonly": True},
        {"input": 1, "dest": "/more", "output": 1},
        {"input": -1, "dest": "/cache", "output": -1, "mountType": ops.CACHE, "cacheOpt": {"ID": "failed"}},
    )
    script = "echo left > /left; echo more > /more/f; exit 3"
    about = {"description": {"llb.customname": "it fails"}}
    command = writer.run(writer.image(IMAGE), "sh", "-c", script, mounts=mounts, inputs=(other,), about=about)
    with frontend(daemon) as asked:
        told = failed(asked, {"Definition": writer.definition(command)})
        assert told["op"]["exec"]["meta"]["args"] == ["sh", "-c", script]
        assert [each["dest"] for each in told["op"]["exec"]["mounts"]] == ["/", "/in", "/more", "/cache"]
        assert len(told["op"]["inputs"]) == 2
        assert told["description"] == {"llb.customname": "it fails"}
        before, after = told["inputIDs"], told["mountIDs"]
        assert len(before) == len(after) == 4 and before[1] == after[1] == before[2] and before[3] == after[3] == ""
        assert listed(asked, after[0], "/left") == b"left\n" and listed(asked, before[0], "/left") == b""
        for id, path, expected in ((after[2], "/f", b"more\n"), (after[2], "/given", b"given\n")):
            assert asked.read(id, path) == expected
        assert "f" not in asked.names(before[2], "/")


def test_a_failed_command_of_a_dockerfile_can_be_looked_at(daemon: Daemon, busybox: str) -> None:
    text = (
        "FROM busybox\nENV A=b\nWORKDIR /w\nUSER 7\n"
        "RUN --mount=type=cache,target=/c,sharing=locked --mount=type=tmpfs,target=/t --network=none"
        " echo $A > /tmp/left; exit 4\n"
    )
    writer = Writer()
    base = writer.definition(writer.files({"mkfile": {**MKFILE, "path": "/Dockerfile", "data": text.encode()}}))
    asked_for = {"Frontend": "dockerfile.v0", "FrontendInputs": {"context": base, "dockerfile": base}}
    with frontend(daemon) as asked:
        told = failed(asked, asked_for)
        command = told["op"]["exec"]
        assert command["meta"]["args"][-1].endswith("exit 4") and command["network"] == ops.NONE
        assert (command["meta"]["cwd"], command["meta"]["user"]) == ("/w", "7") and "A=b" in command["meta"]["env"]
        assert [each["dest"] for each in command["mounts"]] == ["/", "/c", "/t"]
        assert command["mounts"][1]["cacheOpt"] == {"ID": "/c", "sharing": ops.LOCKED}
        assert listed(asked, told["mountIDs"][0], "/tmp/left") == b"b\n"
        assert listed(asked, told["inputIDs"][0], "/tmp/left") == b""


def test_the_last_few_are_kept(daemon: Daemon, busybox: str) -> None:
    ids = []
    with frontend(daemon) as asked:
        for number in range(9):
            writer = Writer()
            command = writer.run(writer.image(IMAGE), "sh", "-c", f"echo {number} > /left; exit 1")
            ids.append(failed(asked, {"Definition": writer.definition(command)})["mountIDs"][0])
        assert asked.read(ids[1], "/left") == b"1\n" and asked.read(ids[8], "/left") == b"8\n"
        with pytest.raises(EngineError):
            asked.read(ids[0], "/left")


def test_where_nobody_can_look_no_container_waits(daemon: Daemon, busybox: str) -> None:
    """The operation is told all the same."""
    writer = Writer()
    command = writer.run(writer.image(IMAGE), "sh", "-c", "exit 5")
    with frontend(daemon, Definition=writer.definition(command)) as asked:
        asked.thread.join(20)
    (error,) = asked.ended
    assert isinstance(error, grpc.Failed)
    details = protobuf.decode(Status, error.status.details)["details"]
    (found,) = [json.loads(each["value"]) for each in details if each["type_url"].endswith("errdefs.Solve+json")]
    assert found["op"]["exec"]["meta"]["args"] == ["sh", "-c", "exit 5"] and "mountIDs" not in found


def test_an_operation_on_files_that_fails_is_told(daemon: Daemon) -> None:
    writer = Writer()
    gone = writer.files({"rm": {"path": "/gone"}})
    with frontend(daemon) as asked:
        told = failed(asked, {"Definition": writer.definition(Made(gone.digest))})
    assert told["op"]["file"]["actions"][0]["rm"] == {"path": "/gone"}
