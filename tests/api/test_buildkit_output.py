"""Exports that buildx does not ask a docker daemon for, and clients that mean harm to a daemon that exports to them."""

import contextlib
import socket
import uuid
from collections.abc import Callable, Iterator

import pytest

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import unary
from engine.daemon.buildkit.exporters.filesend import PATH
from engine.daemon.buildkit.messages import control, fsutil
from engine.daemon.buildkit.messages.fsutil import Packet
from engine.daemon.buildkit.serving import Call, Method
from engine.protocols import grpc as ours
from tests.api.test_buildkit import UPGRADE, dial, linked
from tests.harness.daemon import Daemon
from tests.harness.graphs import MKFILE, Writer
from tests.harness.links import running
from tests.harness.registry import OCI_INDEX, OCI_MANIFEST, Registry

Taking = Callable[[Call[Packet, Packet]], None]


@contextlib.contextmanager
def session(daemon: Daemon, take: Taking | None = None) -> Iterator[str]:
    """The id of a session whose client takes files in this way, or not at all."""
    id = uuid.uuid4().hex
    offers = f"X-Docker-Expose-Session-Grpc-Method: {PATH}\r\n" if take else ""
    peer: socket.socket = dial(daemon, "/session", f"{UPGRADE}X-Docker-Expose-Session-Uuid: {id}\r\n{offers}")
    served = {PATH: Method(Packet, Packet, take)} if take else {}
    with running(peer, False, served):
        yield id


def exported(daemon: Daemon, session: str, kind: str, **attrs: str) -> dict[str, str]:
    """What the daemon tells of an export of a tree with two files."""
    writer = Writer()
    tree = writer.files(
        *({"mkfile": {**MKFILE, "path": f"/{name}", "data": uuid.uuid4().bytes}} for name in "ab"),
    )
    asked: control.SolveRequest = {
        "Ref": uuid.uuid4().hex,
        "Session": session,
        "Definition": writer.definition(tree),
        "Exporters": [{"Type": kind, "Attrs": {key.replace("_", "-"): value for key, value in attrs.items()}}],
    }
    with linked(daemon) as link:
        found = unary(link, methods.CONTROL + "Solve", control.SolveRequest, control.SolveResponse, asked)
    return found["ExporterResponse"]


def test_pushed_by_digest_and_kept_nowhere_else(daemon: Daemon, registry: Registry) -> None:
    repository = f"by-{uuid.uuid4().hex[:8]}"
    options = {"name": f"{registry.address}/{repository}", "push": "true", "push_by_digest": "true", "store": "false"}
    with session(daemon) as id:
        told = exported(daemon, id, "image", **options)
    digest = told["containerimage.digest"]
    accepted = {"Accept": f"{OCI_INDEX}, {OCI_MANIFEST}"}
    assert registry.request("GET", f"/v2/{repository}/manifests/{digest}", headers=accepted).status == 200
    assert registry.request("GET", f"/v2/{repository}/manifests/latest", headers=accepted).status == 404
    assert daemon.request("GET", f"/images/{digest}/json").status == 404


def test_names_of_an_image_without_a_tag(daemon: Daemon) -> None:
    """By its digest, under the name and under the prefix for images that have none."""
    name = f"kept-{uuid.uuid4().hex[:8]}"
    with session(daemon) as id:
        told = exported(daemon, id, "image", name=name, name_canonical="true", dangling_name_prefix=f"{name}-dangling")
    digest = told["containerimage.digest"]
    found = daemon.request("GET", f"/images/{digest}/json").json()
    assert found["RepoTags"] == [f"{name}:latest"]
    assert f"{name}-dangling@{digest}" in found["RepoDigests"]
    assert daemon.request("DELETE", f"/images/{digest}?force=1").status == 200


def test_a_client_that_takes_no_files(daemon: Daemon) -> None:
    with session(daemon) as id, pytest.raises(ours.Failed) as caught:
        exported(daemon, id, "local")
    assert "not supported by the client" in caught.value.status.words


def _listed(call: Call[Packet, Packet]) -> None:
    while (packet := call.receive()) is not None and packet["stat"] is not None:
        pass


def _asks(*numbers: int) -> Taking:
    def take(call: Call[Packet, Packet]) -> None:
        _listed(call)
        for number in numbers:
            call.send({"type": fsutil.REQUEST, "ID": number})
        for _ in call.every():
            pass

    return take


def _data(call: Call[Packet, Packet]) -> None:
    call.send({"type": fsutil.DATA, "ID": 0, "data": b"x" * 100})
    for _ in call.every():
        pass


def _error(call: Call[Packet, Packet]) -> None:
    call.send({"type": fsutil.ERROR, "data": b"no room\xff"})
    for _ in call.every():
        pass


@pytest.mark.parametrize(
    ("take", "words"),
    [
        (_asks(2), "a file that was not listed"),
        (_asks(2**32 - 1), "a file that was not listed"),
        (_asks(0, 0, 0), "a file"),
        (_data, "a file that was not listed"),
        (_error, "no room"),
        (_listed, "ended before it had all"),
    ],
    ids=["unlisted", "largest", "twice", "data", "error", "early"],
)
def test_a_client_that_takes_files_wrongly(daemon: Daemon, take: Taking, words: str) -> None:
    """The export ends in words, and the daemon serves on."""
    with session(daemon, take) as id, pytest.raises(ours.Failed) as caught:
        exported(daemon, id, "local")
    assert words in caught.value.status.words, caught.value.status
    assert daemon.request("GET", "/_ping").status == 200
