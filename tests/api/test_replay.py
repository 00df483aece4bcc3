"""The recorded conversations between buildx and a dockerd with BuildKit, played against this daemon.

The client is told the same: how each call ends, what becomes of the image, which steps there are, and what a check
finds. And it is asked for the same.
"""

import json
import re

import pytest

from engine.daemon.buildkit.messages.known import Status
from engine.protocols import protobuf
from tests.harness.daemon import Daemon
from tests.harness.replaying import CHECK, FILES, HEALTH, SECRET, Replay

BUILDS = ("simple", "full", "bake", "fail", "check")
METADATA = "[internal] load metadata for docker.io/library/busybox:latest"
INTERNAL = {"[internal] load build definition from Dockerfile", "[internal] load .dockerignore", "exporting to image"}
TARGET = "result of another target"


@pytest.fixture(scope="module", params=BUILDS)
def build(request: pytest.FixtureRequest, builder: Daemon) -> Replay:
    """A recorded build, played."""
    made = Replay(builder, request.param, {"context": {"f.txt": b"text\n"}})
    made.play()
    return made


def test_each_call_ends_as_it_did(build: Replay) -> None:
    """A failed command is told by the call that needs its files, in the same words and with the same details."""
    assert build.of("Solve") and build.of("Status") and build.of("Return")
    for each in build.calls:
        then = each.then.status
        assert then is not None
        assert (each.status.code, each.status.words) == (then.code, then.words), each.path
        if each.status.code:
            kinds = [re.search(r"\w+\.\w+\+json", detail["type_url"]) for detail in _details(each.status.details)]
            theirs = [re.search(r"\w+\.\w+\+json", detail["type_url"]) for detail in _details(then.details)]
            assert {kind[0] for kind in kinds if kind} == {kind[0] for kind in theirs if kind} - {"stack.Stack+json"}


def _details(data: bytes) -> list:
    return protobuf.decode(Status, data)["details"]


def test_the_client_learns_of_the_same_image(build: Replay) -> None:
    for each in build.of("Control/Solve"):
        then, now = ([answer["ExporterResponse"] for answer in side] for side in (each.answered, each.answers))
        assert [told.keys() for told in now] == [told.keys() for told in then]
        for theirs, ours in zip(then, now, strict=True):
            assert ours.get("image.name") == theirs.get("image.name")


def test_the_same_steps_are_told_of(build: Replay) -> None:
    """But for digests of images, and in another order where steps do not need each other.

    A base image that is here is not looked up for a check. A cache inside of an image that nobody names is not
    imported. A target that stands on another one shows one step in the place of those of the other one.
    """
    before: set[str] = set()
    for each in build.of("Status"):
        then, now = (_plain(build.names(each, ours)) for ours in (False, True))
        then = {name for name in then if not name.startswith(("importing cache manifest from inline", METADATA))}
        now -= {METADATA, "preparing layers for inline cache"}
        linked = {name for name in now if TARGET in name}
        assert _steps(now - linked) == _steps(then - before if linked else then)
        before |= then - INTERNAL


def _plain(names: list[str]) -> set[str]:
    return {re.sub(r"@sha256:\w{64}", "", name) for name in names}


def _steps(names: set[str]) -> set[str]:
    """Without the places of steps among those of their stage."""
    return {re.sub(r"\b\d+/\d+\] ", "", name) for name in names}


def test_a_frontend_says_the_same_of_its_result(build: Replay) -> None:
    for each in build.of("LLBBridge/Solve"):
        if each.status.code:
            continue
        then, now = each.answered[0]["result"], each.answers[0]["result"]
        assert now["metadata"].keys() == then["metadata"].keys()
        assert bool(now["ref"] and now["ref"]["id"]) == bool(then["ref"] and then["ref"]["id"])
        if "refs.platforms" in then["metadata"]:
            (theirs,) = json.loads(then["metadata"]["refs.platforms"])["Platforms"]
            (ours,) = json.loads(now["metadata"]["refs.platforms"])["Platforms"]
            assert ours.keys() == theirs.keys()
        if "result.json" in then["metadata"]:  # of a check
            assert json.loads(now["metadata"]["result.json"]) == json.loads(then["metadata"]["result.json"])
            assert now["metadata"]["result.txt"] == then["metadata"]["result.txt"]
        if "containerimage.config" in then["metadata"]:
            theirs, ours = (json.loads(side["metadata"]["containerimage.config"]) for side in (then, now))
            commands = [[step.get("created_by") for step in each["history"][1:]] for each in (theirs, ours)]
            assert commands[0] == commands[1]
            assert ours["config"]["Cmd"] == theirs["config"]["Cmd"]


def test_the_client_is_asked_for_no_more_than_it_was(build: Replay) -> None:
    then = {call.path for client in build.clients for call in client.then}
    now = {path for path, _ in build.met()}
    assert now - {HEALTH} <= then | {FILES}
    assert now >= then & {FILES, SECRET, CHECK}


def test_what_was_asked_of_the_cache_and_the_history(builder: Daemon) -> None:
    """Lists and a pruning are answered, in messages that the client reads."""
    for name, method in (("hist", "ListenBuildHistory"), ("du", "DiskUsage"), ("prune", "Prune")):
        played = Replay(builder, name)
        played.play()
        (call,) = played.of(method)
        assert call.then.status is not None
        assert (call.status.code, call.status.words) == (call.then.status.code, call.then.status.words)
        if name == "du":
            kinds = {record["RecordType"] for answer in call.answered for record in answer["record"]}
            assert {record["RecordType"] for answer in call.answers for record in answer["record"]} <= kinds | {
                "exec.cachemount"
            }
