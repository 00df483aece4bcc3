"""Image archives as other programs write them: `docker save` and the OCI layout. Pure: bytes from layers."""

import gzip
import hashlib
import json

from tests.harness import rootfs
from tests.harness.registry import OCI_CONFIG, OCI_INDEX, OCI_LAYER, OCI_MANIFEST, architecture, digest


def tar(entries: dict[str, bytes]) -> bytes:
    """A tar of plain files."""
    return rootfs.archive([(name, 0o644, content) for name, content in entries.items()])


def image_config(layers: list[bytes], config: dict, more: dict | None = None) -> bytes:
    """An image's config, as JSON; `more` are its other fields."""
    return json.dumps(
        {
            "architecture": architecture(),
            "os": "linux",
            "config": config,
            **(more or {}),
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
            "history": [{"created_by": "test"} for _ in layers],
        }
    ).encode()


def docker_archive(layers: list[bytes], tags: list[str], config: dict | None = None, more: dict | None = None) -> bytes:
    """What `docker save` of older versions wrote."""
    text = image_config(layers, config or {}, more)
    name = hashlib.sha256(text).hexdigest() + ".json"
    names = [f"{number}/layer.tar" for number, _ in enumerate(layers)]
    manifest = json.dumps([{"Config": name, "RepoTags": tags, "Layers": names}]).encode()
    return tar({name: text, **dict(zip(names, layers, strict=True)), "manifest.json": manifest})


def oci_archive(layers: list[bytes], tag: str, config: dict | None = None) -> bytes:
    """An OCI image layout."""
    blobs: dict[str, bytes] = {}

    def put(data: bytes, kind: str) -> dict:
        blobs["blobs/sha256/" + digest(data)[7:]] = data
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": put(image_config(layers, config or {}), OCI_CONFIG),
        "layers": [put(gzip.compress(layer, mtime=0), OCI_LAYER) for layer in layers],
    }
    named = {**put(json.dumps(manifest).encode(), OCI_MANIFEST), "annotations": {"io.containerd.image.name": tag}}
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [named]}
    layout = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
    return tar({**layout, **blobs})
