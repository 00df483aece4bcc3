"""The images that the Dockerfiles begin with, as layouts of the OCI's form in directories. Pure but for `written`.

All are of three platforms, and of the same files, since no command of a foreign platform is run.
"""

import gzip
import hashlib
import json
from pathlib import Path

from tests.harness import rootfs

PLATFORMS = (("amd64", ""), ("arm64", "v8"), ("arm", "v7"))
MADE = "2020-01-02T03:04:05Z"
PROGRAMS = (
    "sh",
    "echo",
    "rm",
    "mkdir",
    "touch",
    "ln",
    "chmod",
    "mknod",
    "mv",
    "chown",
    "true",
    "env",
    "sort",
    "cat",
    "grep",
    "id",
)
CONFIGS: dict[str, dict] = {
    "base": {"Env": ["PATH=/bin:/usr/bin", "BASE=b c"], "Cmd": ["sh"], "Labels": {"of": "base"}, "WorkingDir": "/"},
    "onbuild": {
        "Env": ["PATH=/bin"],
        "User": "nobody",
        "WorkingDir": "/keep",
        "OnBuild": ["ARG O=1", "ENV BUILT=$O$X", "WORKDIR sub", "COPY . /onbuild/"],
        "ExposedPorts": {"80/tcp": {}},
        "Volumes": {"/v": {}},
    },
    "plain": {},
}


def layers(programs: bool) -> list[bytes]:
    """Two: programs and directories, and what a build may remove, replace or follow.

    programs: the host's busybox is in it; else it is the same on each host, and no command can be run
    """
    binary = b"no program"
    if programs:
        with open(rootfs.program() or "", "rb") as source:
            binary = source.read()
    files = [("bin/busybox", 0o755, binary), ("etc/passwd", 0o644, rootfs.PASSWD.encode())]
    files.append(("etc/group", 0o644, rootfs.GROUP.encode()))
    directories = (("bin", 0o755), ("etc", 0o755), ("home", 0o755), ("tmp", 0o1777))
    first = rootfs.archive(files, directories, [(f"bin/{name}", "busybox") for name in PROGRAMS])
    kept = [("keep/a.txt", 0o644, b"kept\n"), ("keep/sub/b", 0o4755, b"b\n"), ("dir", 0o644, b"a file\n")]
    second = rootfs.archive(kept, (("keep", 0o750), ("keep/sub", 0o2755)), [("lnk", "/keep"), ("w", "nowhere")])
    return [first, second]


def written(name: str, place: Path, programs: bool = True) -> str:
    """Write the layout of that image; the digest of its index. programs: see `layers`"""
    blobs = place / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def kept(data: bytes, kind: str, **more: object) -> dict:
        found = hashlib.sha256(data).hexdigest()
        (blobs / found).write_bytes(data)
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{found}",
            "size": len(data),
            **more,
        }

    rows = [kept(data, "layer.v1.tar") for data in layers(programs)]
    manifests = []
    for architecture, variant in PLATFORMS:
        platform = {"os": "linux", "architecture": architecture, **({"variant": variant} if variant else {})}
        history = [
            {"created": MADE, "created_by": "made"},
            {"created": MADE, "created_by": "ENV A", "empty_layer": True},
        ]
        config = {
            **platform,
            "created": MADE,
            "config": CONFIGS[name],
            "rootfs": {"type": "layers", "diff_ids": [row["digest"] for row in rows]},
            "history": [*history, {"created": MADE, "created_by": "made too", "comment": "of the base"}],
        }
        image = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": kept(json.dumps(config).encode(), "config.v1+json"),
            "layers": rows,
        }
        manifests.append(kept(json.dumps(image).encode(), "manifest.v1+json", platform=platform))
    kind = "application/vnd.oci.image.index.v1+json"
    index = kept(json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": manifests}).encode(), "index.v1+json")
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    return str(index["digest"])


def squeezed() -> str:
    """A compressed archive for contexts, as text of latin-1."""
    tar = rootfs.archive([("unpacked/f", 0o644, b"f\n")], (("unpacked", 0o700),), [("unpacked/l", "f")])
    return gzip.compress(tar, mtime=0).decode("latin-1")
