"""The `Image` value, and parsing, checking and writing of an image's JSON documents: index, manifest and config.

Pure values and their checks; runs on any thread of the daemon. Formats: OCI image-spec (descriptor.md, manifest.md,
config.md) and docker's schema 2, which differ only in their media types.
"""

import json

from engine.daemon import jsontext
from engine.daemon.images.reference import check_digest
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"

INDEXES = (OCI_INDEX, DOCKER_LIST)
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
CONFIGS = (OCI_CONFIG, DOCKER_CONFIG)

# The limit of registries and of dockerd. A document is held in memory whole.
LARGEST_DOCUMENT = 4 * 1024 * 1024
# docker allows no more layers. An overlay mount can take only as many directories as fit its one page of options.
MOST_LAYERS = 127
_LARGEST_BLOB = 1 << 42

INDENT = 2
"""Of the manifests and indexes that BuildKit makes."""
# What Go escapes in texts although JSON need not; it stands nowhere else in a document.
_ESCAPED = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Image:
    """One image, for one of its platforms.

    id: digest of the index or manifest that its names point at; descriptor: mediaType, digest, size of the same
    manifest: digest of this platform's manifest; config: the whole config document (its `config` is the container's)
    layers: directories relative to the layer root, lowest first; layer_sizes: bytes on the disk, in the same order
    content_size: bytes of its blobs; created: RFC 3339 as the config says it, or empty; parent: an image's id, or empty
    repo_tags, repo_digests: in the familiar form; names: in the form of `Reference.canonical`
    tagged_ns: time of the last tagging in ns since the epoch, or 0
    hidden: it is here only because a build began with it
    """

    id: str
    descriptor: Object
    manifest: str
    config: Object
    layers: tuple[str, ...]
    layer_sizes: tuple[int, ...]
    content_size: int
    created: str
    parent: str
    names: tuple[str, ...]
    repo_tags: tuple[str, ...]
    repo_digests: tuple[str, ...]
    tagged_ns: int
    hidden: bool = False

    @property
    def size(self) -> int:
        """Bytes on the disk: the unpacked layers and the compressed blobs, as dockerd counts them."""
        return sum(self.layer_sizes) + self.content_size

    @property
    def is_unpacked(self) -> bool:
        """Whether its files are here: of an image with a layer that is no tar, only the blobs are."""
        return len(self.layers) == len(set(self.diff_ids))

    def check_unpacked(self) -> None:
        """Raise SystemFailure for an image without files."""
        if not self.is_unpacked:
            raise SystemFailure(f'apply layer error for "": failed to extract a layer of {self.id}: it is no tar')

    @property
    def diff_ids(self) -> list[str]:
        """Digests of the layers' uncompressed tars, lowest first."""
        return diff_ids_of(self.config)


def dump(document: Object | list[Object], indent: int | None = None) -> bytes:
    """The document as JSON in UTF-8, as Go writes it: without blanks, or with so many before each level's lines."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(document, separators=separators, indent=indent, ensure_ascii=False)
    return text.translate(_ESCAPED).encode("utf-8", "surrogatepass")


def load(data: bytes, what: str) -> Object:
    """The JSON object in `data`. Raises Invalid with `what` in the message."""
    document = jsontext.parse(data, what)
    if not isinstance(document, dict):
        raise Invalid(f"invalid {what}: it is not a JSON object")
    return document


def descriptor_of(document: object, what: str) -> Object:
    """The document itself, if it is a descriptor with a valid digest and size. Raises Invalid with `what` in it."""
    if not isinstance(document, dict):
        raise Invalid(f"invalid {what}: it is not a descriptor")
    digest, size = document.get("digest"), document.get("size")
    if not isinstance(digest, str) or not isinstance(size, int) or isinstance(size, bool):
        raise Invalid(f"invalid {what}: a descriptor without digest or size")
    if not 0 <= size <= _LARGEST_BLOB:
        raise Invalid(f"invalid {what}: size {size} of {digest}")
    check_digest(digest)
    return document


def media_type_of(document: Object, said: str = "") -> str:
    """The media type of an index or manifest: from its mediaType, or else from `said`, or else from its fields.

    said: the media type in the descriptor or the registry's header. Raises Invalid for schema 1, and for a document
        whose type and fields are of different kinds (CVE-2021-41190).
    """
    kind = document.get("mediaType") or said
    if document.get("schemaVersion") == 1 or "fsLayers" in document:
        raise Invalid("the image has a schema 1 manifest, which is no longer supported")
    if kind not in INDEXES + MANIFESTS:
        kind = OCI_INDEX if "manifests" in document else OCI_MANIFEST
    if ("manifests" in document) != (kind in INDEXES) or ("layers" in document) != (kind in MANIFESTS):
        raise Invalid(f"invalid manifest: its fields are not those of {kind}")
    return kind


def index_entries(document: Object) -> list[Object]:
    """The descriptors in an index. Raises Invalid."""
    manifests = document.get("manifests")
    if not isinstance(manifests, list):
        raise Invalid("invalid index: no manifests")
    return [descriptor_of(entry, "index") for entry in manifests]


def manifest_parts(document: Object) -> tuple[Object, list[Object]]:
    """The descriptor of a manifest's config, and those of its layers, lowest first. Raises Invalid."""
    layers = document.get("layers", ())
    if layers is None:  # as Go writes an empty list that was never made
        layers = []
    if not isinstance(layers, list):
        raise Invalid("invalid manifest: no layers")
    if len(layers) > MOST_LAYERS:
        raise Invalid(f"max depth exceeded: {len(layers)} layers, where {MOST_LAYERS} are allowed")
    config = descriptor_of(document.get("config"), "manifest")
    return config, [descriptor_of(layer, "manifest") for layer in layers]


def config_of(data: bytes, layer_count: int) -> Object:
    """The config document in `data`, checked: its fields have the right types, and each layer has a diff id.

    Raises Invalid.
    """
    document = load(data, "image config")
    _check_diff_ids(document, layer_count)
    _check_types(document, _CONFIG_FIELDS, "")
    container = document.get("config") or {}
    _check_types(container, _CONTAINER_FIELDS, "config.")
    health = container.get("Healthcheck") or {}
    _check_types(health, _HEALTH_FIELDS, "config.Healthcheck.")
    lists = [(name, container.get(name) or ()) for name in _TEXT_LISTS]
    for name, texts in (*lists, ("Labels", _labels(container)), ("Healthcheck.Test", health.get("Test") or ())):
        if not all(isinstance(text, str) for text in texts):
            raise Invalid(f"invalid image config: config.{name} is of the wrong type")
    names = [(name, (container.get(name) or "",)) for name in _NAMES]
    for name, texts in (*lists, *names, ("Volumes", container.get("Volumes") or ())):
        # No system call takes a NUL byte; Python would raise a ValueError, which is no EngineError.
        if any("\0" in text for text in texts):
            raise Invalid(f"invalid image config: config.{name} holds a NUL byte")
    return document


def _labels(container: Object) -> list[object]:
    return list((container.get("Labels") or {}).values())


def _check_types(document: Object, fields: dict[str, type], where: str) -> None:
    for name, kind in fields.items():
        if not isinstance(document.get(name), kind | None):
            raise Invalid(f"invalid image config: {where}{name} is of the wrong type")


def _check_diff_ids(document: Object, layer_count: int) -> None:
    rootfs = document.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    diff_ids = [] if diff_ids is None and not layer_count else diff_ids
    if not isinstance(diff_ids, list) or not all(isinstance(diff_id, str) for diff_id in diff_ids):
        raise Invalid("invalid image config: no rootfs.diff_ids")
    if len(diff_ids) != layer_count:
        raise Invalid(f"mismatched image rootfs and manifest layers: {len(diff_ids)} diff ids, {layer_count} layers")
    for diff_id in diff_ids:
        check_digest(diff_id)
        if not diff_id.startswith("sha256:"):
            raise Invalid(f"invalid image config: diff id {diff_id} is not a sha256 digest")


def diff_ids_of(config: Object) -> list[str]:
    """The digests of the layers' uncompressed tars in a checked config, lowest first."""
    return list((config.get("rootfs") or {}).get("diff_ids") or [])


# The fields that the rest of the daemon uses. Their types are checked, so that no untrusted config breaks anything.
_CONFIG_FIELDS: dict[str, type] = {
    "architecture": str,
    "os": str,
    "variant": str,
    "created": str,
    "config": dict,
    "author": str,
}
_CONTAINER_FIELDS: dict[str, type] = {
    "User": str,
    "WorkingDir": str,
    "StopSignal": str,
    "Env": list,
    "Cmd": list,
    "Entrypoint": list,
    "Shell": list,
    "OnBuild": list,
    "Labels": dict,
    "ExposedPorts": dict,
    "Volumes": dict,
    "Healthcheck": dict,
}
_HEALTH_FIELDS: dict[str, type] = {
    "Test": list,
    "Interval": int,
    "Timeout": int,
    "StartPeriod": int,
    "StartInterval": int,
    "Retries": int,
}
_NAMES = ("User", "WorkingDir")
_TEXT_LISTS = ("Env", "Cmd", "Entrypoint", "Shell", "OnBuild")


def manifest_document(config: Object, layers: list[Object]) -> Object:
    """An OCI manifest with these descriptors of a config and of layers, its keys in the order that Go writes them."""
    return {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers}


def layer_type(form: str) -> str:
    """The media type of a layer's blob. form: of its compression, empty for none"""
    return f"{OCI_LAYER}+{form}" if form else OCI_LAYER


def descriptor(media_type: str, digest: str, size: int) -> Object:
    """A descriptor with the three fields that every descriptor has."""
    return {"mediaType": media_type, "digest": digest, "size": size}
