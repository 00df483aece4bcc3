"""Makes the large image, a small Debian of about 200 MB in 6,700 files, for the cases that pull, load and save.

Run in the benchmarks' process. debootstrap makes it once a machine (half a minute, over the network), and the tests'
cache keeps it, so that every run has the same bytes. Where debootstrap is missing or fails, files of the host of about
the same number and size take its place, for that run only. It only reads the host's files and the cache, and writes
below the given directory. No case may change these files, because the next case uses the same.
"""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from bench.cases import OURS
from bench.peers import Peer
from tests.harness.namespaces import Namespaces
from tests.harness.registry import CONFIG_V1, LAYER_V2, MANIFEST_V2, Registry, architecture, digest

NAME = "bench/large"
IN_LAYERS = "layers"
"""The tag of the image in several layers."""
LAYERS = 8
ROUNDS = 5
# The peers take up to nine seconds a time.
ROUNDS_OF_PEERS = 2
SUITE = "bookworm"
SECONDS = 300
BYTES = 205_000_000
FILES = 6_700
SMALL = 30_000
_PACK = ("tar", "--create", "--numeric-owner", "--sort=name", "--one-file-system")


def rounds(peer: Peer) -> int:
    """How often an engine is given the image."""
    return ROUNDS if peer.name == OURS else ROUNDS_OF_PEERS


class Large:
    """The image in every form that a case needs. Each form is made when it is first asked for, and must not be changed.

    kept:      the directory of files that last from run to run; directory: of those that last for this run
    layer:     the image's one layer as a plain tar (a Path); `packed`: the same through gzip
    """

    def __init__(self, kept: Path, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._kept = kept
        kept.mkdir(parents=True, exist_ok=True)
        self.layer = kept / f"debootstrap-{SUITE}.tar"
        if not self.layer.exists() and not _debootstrap(self.layer, directory / "debian"):
            self._kept = directory
            self.layer = directory / "host.tar"
            _host_files(self.layer)

    @cached_property
    def packed(self) -> Path:
        """The layer compressed with gzip, as a registry serves it."""
        path = self._kept / f"{self.layer.name}.gz"
        if not path.exists():
            unfinished = path.with_suffix(".part")
            with open(self.layer, "rb") as source, gzip.GzipFile(unfinished, "wb", 6, mtime=0) as target:
                shutil.copyfileobj(source, target, 1 << 20)
            unfinished.rename(path)
        return path

    @cached_property
    def parts(self) -> list[Path]:
        """The same files as `LAYERS` layers of about one size, lowest first, compressed with gzip."""
        paths = [self._kept / f"{self.layer.stem}-{number}-of-{LAYERS}.tar.gz" for number in range(LAYERS)]
        if not all(path.exists() for path in paths):
            for path, members in zip(paths, _split(self.layer), strict=True):
                unfinished = path.with_suffix(".part")
                with tarfile.open(self.layer) as source, tarfile.open(unfinished, "w:gz", compresslevel=6) as target:
                    for member in members:
                        target.addfile(member, source.extractfile(member) if member.isreg() else None)
                unfinished.rename(path)
        return paths

    @cached_property
    def root(self) -> Path:
        """A directory with the image's files, unpacked."""
        path = self._directory / "root"
        path.mkdir()
        subprocess.run(["tar", "--extract", "--numeric-owner", "--file", self.layer, "--directory", path], check=True)
        return path

    @cached_property
    def config(self) -> dict[str, object]:
        """The image's configuration, as its JSON object."""
        with open(self.layer, "rb") as source:
            return _config([f"sha256:{hashlib.file_digest(source, 'sha256').hexdigest()}"])

    @cached_property
    def archive(self) -> Path:
        """An archive of the image as `docker save` writes it, with the name `bench/large:latest`."""
        path = self._directory / "archive.tar"
        config = json.dumps(self.config).encode()
        name_of_config, name_of_layer = f"{digest(config).partition(':')[2]}.json", "layer/layer.tar"
        entry = {"Config": name_of_config, "Layers": [name_of_layer], "RepoTags": [f"{NAME}:latest"]}
        manifest = json.dumps([entry]).encode()
        with tarfile.open(path, "w") as archive:
            for name, data in ((name_of_config, config), ("manifest.json", manifest)):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
            archive.add(self.layer, arcname=name_of_layer)
        return path

    @cached_property
    def registry(self) -> Path:
        """A directory for a `tests.harness.registry.Registry`, which holds the image in one layer as
        `bench/large:latest` and in several as `bench/large:layers`; several registries may serve it.
        """
        directory = self._directory / "registry"
        with Namespaces() as namespaces, Registry(directory, namespaces) as registry:
            _push(registry, "latest", self.config, [self.packed])
            _push(registry, IN_LAYERS, _config([_unpacked_digest(path) for path in self.parts]), self.parts)
        return directory


def _config(diff_ids: list[str]) -> dict[str, object]:
    """The configuration of an image of these layers, as its JSON object."""
    return {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created_by": "debootstrap"} for _ in diff_ids],
    }


def _unpacked_digest(path: Path) -> str:
    with gzip.open(path) as source:
        return f"sha256:{hashlib.file_digest(source, 'sha256').hexdigest()}"


def _push(registry: Registry, tag: str, config: dict[str, object], layers: list[Path]) -> None:
    parts = [{"mediaType": LAYER_V2, **registry.push_blob(NAME, path.read_bytes())} for path in layers]
    told = {"mediaType": CONFIG_V1, **registry.push_blob(NAME, json.dumps(config).encode())}
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST_V2, "config": told, "layers": parts}
    registry.push_manifest(NAME, tag, manifest)


def _split(layer: Path) -> list[list[tarfile.TarInfo]]:
    """The members of a tar in as many lists as there are layers, each list with the directories that it needs."""
    with tarfile.open(layer) as archive:
        members = archive.getmembers()
    directories = {member.name: member for member in members if member.isdir()}
    lists: list[dict[str, tarfile.TarInfo]] = [{} for _ in range(LAYERS)]
    place: dict[str, int] = {}
    size, whole = 0, sum(member.size + 1 for member in members)
    for member in members:
        number = place[member.name] = place.get(member.linkname, min(size * LAYERS // whole, LAYERS - 1))
        above = [str(each) for each in Path(member.name).parents[::-1]]
        needed = [directories[name] for name in (".", *(f"./{each}" for each in above)) if name in directories]
        lists[number].update({each.name: each for each in (*needed, member)})
        size += member.size + 1
    return [list(found.values()) for found in lists]


def _debootstrap(target: Path, root: Path) -> bool:
    """Make a small Debian in `root`, pack it as `target`, and remove `root`; False when this host cannot make it."""
    if shutil.which("debootstrap") is None:
        return False
    root.mkdir()
    try:
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, root],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
        )
        if made.returncode:
            return False
        _pack(target, root, ["."])
    except subprocess.TimeoutExpired:
        return False
    finally:
        shutil.rmtree(root)
    return True


def _pack(target: Path, root: Path, names: list[str]) -> None:
    """Write a tar of these names below `root`; the file `target` is complete or does not exist."""
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as unfinished:
        command = [*_PACK, "--file", unfinished.name, "--directory", str(root), "--null", "--files-from=-"]
        subprocess.run(command, input="\0".join(names).encode(), check=True)
    Path(unfinished.name).rename(target)


def _host_files(target: Path) -> None:
    """Pack the host's own files: as many small ones as a Debian has, then large ones up to its size."""
    small: list[Path] = []
    large: list[tuple[Path, int]] = []
    size = 0
    for path, its in _regular_files():
        if its <= SMALL and len(small) < FILES:
            small.append(path)
            size += its
        elif its > SMALL:
            large.append((path, its))
    names = [str(path.relative_to("/")) for path in small]
    for path, its in large:
        if size + its <= BYTES:
            names.append(str(path.relative_to("/")))
            size += its
    _pack(target, Path("/"), names)


def _regular_files() -> Iterator[tuple[Path, int]]:
    for top in ("/usr/bin", "/usr/lib", "/usr/share"):
        for path in sorted(Path(top).rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path, path.stat().st_size
