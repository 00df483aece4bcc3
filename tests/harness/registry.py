"""A distribution registry on the daemon's loopback, and pushing made-up images to it blob by blob.

Debian's docker-registry serves; the test process pushes over sockets that belong to the daemon's network namespace.
What is pushed is made here byte by byte, so that a test may also push what no honest client would.
"""

import gzip
import hashlib
import http.client
import json
import platform
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.harness.namespaces import Namespaces

PORT = 5000
MANIFEST_V2 = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG_V1 = "application/vnd.docker.container.image.v1+json"
LAYER_V2 = "application/vnd.docker.image.rootfs.diff.tar.gzip"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
KINDS = {"docker": (MANIFEST_V2, CONFIG_V1, LAYER_V2), "oci": (OCI_MANIFEST, OCI_CONFIG, OCI_LAYER)}
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "riscv64": "riscv64"}
CONFIGURATION = """\
version: 0.1
log:
  level: warn
storage:
  filesystem:
    rootdirectory: {root}
  delete:
    enabled: true
http:
  addr: {listen}:{port}
"""


class Reply(NamedTuple):
    """What the registry answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Pushed(NamedTuple):
    """A manifest in the registry."""

    digest: str
    size: int
    media_type: str


def digest(data: bytes) -> str:
    """The digest of a blob as registries name it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def architecture() -> str:
    """This machine in Go's words."""
    return MACHINES.get(platform.machine(), platform.machine())


class Registry:
    """docker-registry on 127.0.0.1 inside `namespaces`; a context manager.

    more: lines for the end of its configuration, of `http:` first; listen: where else it is to be heard
    """

    def __init__(
        self, root: Path, namespaces: Namespaces, port: int = PORT, more: str = "", listen: str = "127.0.0.1"
    ) -> None:
        self.namespaces = namespaces
        self.port = port
        self.address = f"127.0.0.1:{port}"
        root.mkdir(parents=True, exist_ok=True)
        configuration = root / "config.yml"
        configuration.write_text(CONFIGURATION.format(root=root / "storage", port=port, listen=listen) + more)
        with open(root / "log", "wb") as log:
            self.process = subprocess.Popen(
                namespaces.command(["docker-registry", "serve", str(configuration)]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        namespaces.connect(port).close()

    @staticmethod
    def available() -> bool:
        """Whether the program is on this machine."""
        return shutil.which("docker-registry") is not None

    def __enter__(self) -> "Registry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the registry."""
        self.process.kill()
        self.process.wait()

    def request(self, method: str, path: str, body: bytes = b"", headers: dict | None = None) -> Reply:
        """One call to the registry."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.sock = self.namespaces.connect(self.port)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def push_blob(self, repository: str, data: bytes) -> dict:
        """Put one blob; its descriptor without a media type."""
        status, headers, _ = self.request("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == 202, status
        location = headers["Location"].split(self.address)[-1]
        mark = "&" if "?" in location else "?"
        kind = {"Content-Type": "application/octet-stream"}
        status, _, text = self.request("PUT", f"{location}{mark}digest={digest(data)}", data, kind)
        assert status == 201, (status, text)
        return {"digest": digest(data), "size": len(data)}

    def push_manifest(self, repository: str, reference: str, manifest: dict) -> Pushed:
        """Put one manifest under a tag or its digest (`reference` empty)."""
        data = json.dumps(manifest).encode()
        kind = manifest["mediaType"]
        target = f"/v2/{repository}/manifests/{reference or digest(data)}"
        status, _, text = self.request("PUT", target, data, {"Content-Type": kind})
        assert status == 201, (status, text)
        return Pushed(digest(data), len(data), kind)

    def push(
        self,
        name: str,
        layers: list[bytes],
        config: dict | None = None,
        kind: str = "docker",
        machine: str = "",
    ) -> Pushed:
        """Push an image of these layer tars as `repository:tag` (an empty tag: by digest only)."""
        repository, _, tag = name.partition(":")
        manifest_type, config_type, layer_type = KINDS[kind]
        described = [
            {"mediaType": layer_type, **self.push_blob(repository, gzip.compress(layer, 1, mtime=0))}
            for layer in layers
        ]
        whole = {
            "architecture": machine or architecture(),
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], **(config or {})},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
            "history": [{"created_by": f"layer {number}"} for number, _ in enumerate(layers)],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": {"mediaType": config_type, **self.push_blob(repository, json.dumps(whole).encode())},
            "layers": described,
        }
        return self.push_manifest(repository, tag, manifest)

    def push_index(self, name: str, members: dict[str, Pushed], media_type: str = OCI_INDEX) -> Pushed:
        """Push an index (or manifest list) of manifests already in the repository, by architecture."""
        repository, _, tag = name.partition(":")
        manifests = [
            {
                "mediaType": member.media_type,
                "digest": member.digest,
                "size": member.size,
                "platform": {"architecture": machine, "os": "linux"},
            }
            for machine, member in members.items()
        ]
        return self.push_manifest(
            repository, tag, {"schemaVersion": 2, "mediaType": media_type, "manifests": manifests}
        )
