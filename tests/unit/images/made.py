"""Archives, images and stores made up for tests; all of it pure but for the store's directory."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.layers import storage
from engine.daemon.store import images as table
from engine.daemon.store.database import Database
from tests.harness.parts import settings

OCI = "application/vnd.oci.image."


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """One member, owned by the one who runs the test; fields are TarInfo's."""
    info = tarfile.TarInfo(name)
    info.uid, info.gid, info.size, info.mode = os.getuid(), os.getgid(), len(data), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def directory(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    """A directory."""
    return member(name, type=tarfile.DIRTYPE, mode=mode)


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    """A symbolic link."""
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    """A hard link."""
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def archive(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """The tar of the members."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def digest(data: bytes) -> str:
    """`sha256:...` of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def part(kind: str, data: bytes, **more: object) -> dict:
    """The descriptor of a blob."""
    return {"mediaType": kind, "digest": digest(data), "size": len(data), **more}


class MadeImage:
    """An image's blobs: layers (gzip), config, manifest; by digest in `blobs`."""

    def __init__(self, *layers: bytes, architecture: str = "amd64", variant: str = "", config: dict | None = None):
        packed = [gzip.compress(layer, 1, mtime=0) for layer in layers]
        document = {
            "architecture": architecture,
            "os": "linux",
            "created": "2026-01-02T03:04:05Z",
            "config": config or {"Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
        }
        if variant:
            document["variant"] = variant
        self.config = json.dumps(document).encode()
        self.layers = list(layers)
        self.packed = packed
        self.document = {
            "schemaVersion": 2,
            "mediaType": OCI + "manifest.v1+json",
            "config": part(OCI + "config.v1+json", self.config),
            "layers": [part(OCI + "layer.v1.tar+gzip", layer) for layer in packed],
        }
        self.manifest = json.dumps(self.document).encode()
        self.blobs = {digest(data): data for data in (*packed, self.config)}
        # What `layout` is to put in the place of a blob: digest → bytes.
        self.lies: dict[str, bytes] = {}

    @property
    def digest(self) -> str:
        """The manifest's digest."""
        return digest(self.manifest)

    def entry(self, **platform: str) -> dict:
        """The manifest's descriptor in an index."""
        return part(OCI + "manifest.v1+json", self.manifest, platform={"os": "linux", **platform})


def index(*entries: dict) -> bytes:
    """An OCI index."""
    return json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": entries}).encode()


def layout(image: MadeImage, annotations: dict | None = None, more: Iterable[tuple[str, bytes]] = ()) -> bytes:
    """An OCI layout of one image."""
    entry = part(OCI + "manifest.v1+json", image.manifest, annotations=annotations or {})
    files = [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", index(entry))]
    blobs = [*image.blobs.values(), image.manifest]
    files += [(f"blobs/sha256/{digest(blob)[7:]}", image.lies.get(digest(blob), blob)) for blob in blobs]
    return archive(*(member(name, data) for name, data in [*files, *more]))


def docker_archive(image: MadeImage, tags: list[str], layer_links: bool = False) -> bytes:
    """What `docker save` of version 20 writes: uncompressed layers in directories, manifest.json last."""
    name = f"{digest(image.config)[7:]}.json"
    members = [member(name, image.config)]
    places = []
    for number, layer in enumerate(image.layers):
        place = f"{number:064x}/layer.tar"
        if layer_links and layer in image.layers[:number]:
            first = image.layers.index(layer)
            members.append(symlink(place, f"../{first:064x}/layer.tar"))
        else:
            members.append(member(place, layer))
        members.append(member(f"{number:064x}/VERSION", b"1.0"))
        places.append(place)
    manifest = [{"Config": name, "RepoTags": tags, "Layers": places}]
    return archive(*members, member("manifest.json", json.dumps(manifest).encode()))


def store(root: Path, mirrors: tuple[str, ...] = (), insecure: tuple[str, ...] = ()) -> Catalogue:
    """An image store in the directory, with plain copies, which need no rights of root."""
    told = settings(registry_mirrors=mirrors, insecure_registries=insecure)
    database = Database(str(root / "engine.db"), table.SCHEMA)
    return Catalogue(database, str(root), told, storage.COPY)


def files_below(root: Path) -> set[str]:
    """Every path below the directory, relative to it."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}
