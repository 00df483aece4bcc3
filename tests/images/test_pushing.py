"""Pushing to docker-registry what skopeo and umoci wrote: not a byte of it may change on the way through the engine."""

import json
import os
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from engine.daemon.images.reference import Reference
from engine.daemon.images.registry import upload
from engine.daemon.images.registry.download import Cancelled
from engine.daemon.images.registry.upload import Blob, Stalled
from engine.daemon.images.registry.writes import Writer
from engine.daemon.images.verbs import pull
from engine.daemon.images.verbs.push import push
from engine.daemon.store import images as table
from tests.images.conftest import need
from tests.unit.images import made

pytestmark = pytest.mark.root


def raw(name: str) -> bytes:
    """A manifest as skopeo sees it in a registry."""
    command = ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def name_also(store, identity: str, name: str) -> None:
    """Give it one more name."""
    with store.database.transaction() as connection:
        table.set_name(connection, Reference.parse(name).canonical, identity, 1)
    store._found.clear()


def silent(line: dict) -> None:
    """Progress that nobody looks at."""


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--format", "v2s2"),
        ("--dest-decompress",),
        ("--dest-compress-format", "zstd"),
    ],
    ids=["oci", "docker", "plain tars", "zstd"],
)
def test_pulled_pushed_elsewhere_and_pulled_again(make_registry, layout, tmp_path: Path, options: tuple) -> None:
    """The manifest is the same bytes in both registries and in both stores."""
    here, there = make_registry(), make_registry()
    if "--dest-decompress" in options:
        layout.copy(f"dir:{tmp_path}/plain", *options)
        source = f"dir:{tmp_path}/plain"
        command = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false", source, f"docker://{here}/made:1"]
        subprocess.run(command, check=True, capture_output=True)
    else:
        layout.copy(f"docker://{here}/made:1", "--dest-tls-verify=false", *options)
    stores = [made.store(tmp_path / name) for name in ("first", "second") if not (tmp_path / name).mkdir()]
    first = pull.pull(stores[0], f"{here}/made", "1", None, None, silent)
    name_also(stores[0], first.id, f"{there}/else/where:2")
    push(stores[0], f"{there}/else/where", "2", None, None, silent)
    second = pull.pull(stores[1], f"{there}/else/where", "2", None, None, silent)
    assert raw(f"{here}/made:1") == raw(f"{there}/else/where:2")
    assert (second.id, second.manifest, second.diff_ids) == (first.id, first.manifest, first.diff_ids)
    assert made.digest(raw(f"{there}/else/where:2")) == second.id
    subprocess.run(
        [
            "skopeo",
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            f"docker://{there}/else/where:2",
            f"dir:{tmp_path}/out",
        ],
        check=True,
        capture_output=True,
    )


def test_what_was_pulled_is_mounted_beside(make_registry, layout, store) -> None:
    """A pull tells where its blobs stand; the config is one of them."""
    address = make_registry()
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false")
    image = pull.pull(store, f"{address}/made", "1", None, None, silent)
    name_also(store, image.id, f"{address}/else/where:2")
    lines: list[dict] = []
    push(store, f"{address}/else/where", "2", None, None, lines.append)
    told = [line["status"] for line in lines if "id" in line and line["status"] != "Preparing"]
    assert told == ["Mounted from made"] * 3
    assert raw(f"{address}/else/where:2") == raw(f"{address}/made:1")


def test_an_index_with_one_platform_here(make_registry, layout, tmp_path: Path, store) -> None:
    """Elsewhere its one platform goes by itself; where it came from the whole index is named again."""
    here, there = make_registry(), make_registry()
    layout.copy(f"docker://{here}/many:ours", "--dest-tls-verify=false")
    other = made.MadeImage(made.archive(made.member("x")), architecture="s390x")
    put(here, "many", other)
    part = made.part(made.OCI + "manifest.v1+json", raw(f"{here}/many:ours"))
    architecture = json.loads(config_of(f"{here}/many:ours"))["architecture"]
    index = made.index(
        {**part, "platform": {"os": "linux", "architecture": architecture}}, other.entry(architecture="s390x")
    )
    send(here, "PUT", "/v2/many/manifests/all", index, made.OCI + "index.v1+json")
    image = pull.pull(store, f"{here}/many", "all", None, None, silent)
    assert image.id == made.digest(index)
    lines: list[dict] = []
    name_also(store, image.id, f"{there}/many:all")
    push(store, f"{there}/many", "all", None, None, lines.append)
    assert made.digest(raw(f"{there}/many:all")) == part["digest"]
    assert any(line.get("aux", {}).get("manifestPushedInsteadOfIndex") for line in lines)
    name_also(store, image.id, f"{here}/many:again")
    push(store, f"{here}/many", "again", None, None, silent)
    assert raw(f"{here}/many:again") == index


def config_of(name: str) -> bytes:
    """The config of an image, as skopeo reads it."""
    command = ["skopeo", "inspect", "--config", "--raw", "--tls-verify=false", f"docker://{name}"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def send(address: str, method: str, path: str, body: bytes, kind: str) -> None:
    """One call to a registry by curl."""
    need("curl")
    command = ["curl", "-sf", "-X", method, "-H", f"Content-Type: {kind}", "--data-binary", "@-"]
    subprocess.run([*command, f"http://{address}{path}"], input=body, check=True, capture_output=True)


def put(address: str, repository: str, image: made.MadeImage) -> None:
    """Put a made-up image into a registry by its digest, with our own writer's parts."""
    writer = Writer(Reference.parse(f"{address}/{repository}"), (), None)
    writer.ping()
    for data in image.blobs.values():
        writer.finish(writer.start(), made.digest(data), data)
    kind = image.document["mediaType"]
    writer.put_manifest(image.digest, image.digest, kind, image.manifest)
    writer.transport.close()


@pytest.mark.parametrize("smallest", [0, 1])
def test_docker_registry_takes_chunks_and_resumes(make_registry, store, monkeypatch, smallest: int) -> None:
    """What the real one does with PATCH, and with an upload whose connection broke in the middle."""
    monkeypatch.setattr(upload, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(upload, "_CHUNK", 1_000_000)
    address = make_registry()
    data = os.urandom(6_000_000)
    part = made.part("x", data)
    store.content.put(data)
    writer = Writer(Reference.parse(f"{address}/a"), (), None)
    writer.ping()
    broken = []

    def told(gone: int) -> None:
        if gone > 3_000_000 and not broken:
            broken.append(gone)
            for connection in writer.transport._all:
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)

    blob = Blob(writer, part, threading.Event(), told)
    blob.send(store.content, writer.start()._replace(smallest=smallest))
    assert broken and writer.has_blob(part["digest"])
    with writer.blob(part["digest"]) as (answer, _):
        assert made.digest(answer.read()) == part["digest"]
    writer.transport.close()


def test_a_registry_with_tls_that_stops_reading(tmp_path: Path, store, monkeypatch) -> None:
    """There is no sendfile then, and the same end."""
    need("openssl")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    names = ["-nodes", "-days", "2", "-subj", "/CN=x", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command, *names], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    monkeypatch.setattr(upload, "_WINDOW", 0.3)
    data = bytes(20_000_000)
    store.content.put(data)
    released = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection = context.wrap_socket(listener.accept()[0], server_side=True)
        for head in (b"HTTP/1.1 200 OK", b"HTTP/1.1 202 Accepted\r\nLocation: /up"):
            connection.recv(65536)
            connection.sendall(head + b"\r\nContent-Length: 0\r\n\r\n")
        connection.recv(100)
        released.wait(60)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        writer = Writer(Reference.parse(f"127.0.0.1:{listener.getsockname()[1]}/a"), (), None)
        try:
            with pytest.raises(Stalled, match="stopped reading"):
                Blob(writer, made.part("x", data), threading.Event(), lambda _: None).send(store.content, None)
        finally:
            released.set()
            writer.transport.close()
            thread.join()


def test_a_push_that_is_cancelled_ends_at_once(make_registry, store) -> None:
    """In the middle of a blob."""
    address = make_registry()
    data = os.urandom(6_000_000)
    store.content.put(data)
    writer = Writer(Reference.parse(f"{address}/a"), (), None)
    writer.ping()
    cancelled = threading.Event()
    blob = Blob(writer, made.part("x", data), cancelled, lambda gone: cancelled.set())
    with pytest.raises(Cancelled):
        blob.send(store.content, None)
    assert not writer.has_blob(made.digest(data))
    writer.transport.close()
