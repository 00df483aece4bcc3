"""Listing and inspecting images: the answers of GET /images/json and GET /images/{name}/json.

Runs in the daemon, on the request's thread, and changes nothing. Shapes: ImageSummary, ImageInspect and
ImageManifestSummary of the definition, filled in as a current dockerd does (transcript 208-210, 232).
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from engine.daemon.clock import rfc3339
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import (
    INDEXES,
    LARGEST_DOCUMENT,
    Image,
    descriptor,
    index_entries,
    load,
)
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.usedby import UsedBy, User, standing
from engine.daemon.jsontext import Object
from engine.daemon.store import blobsources
from engine.daemon.store import images as table
from engine.errors import Invalid, NotFound
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first listing
    from engine.daemon import moments
    from engine.daemon.images import filters as rules
else:
    rules = late("engine.daemon.images.filters")
    moments = late("engine.daemon.moments")

_SECOND = 1_000_000_000
# The annotation by which BuildKit marks an attestation: the digest of the manifest in the same index that it describes.
_ATTESTED = "vnd.docker.reference.digest"
_DEEPEST_INDEX = 3
_PLATFORM = ("architecture", "os", "os.version", "os.features", "variant")


def images_json(
    store: Catalogue,
    filters: Mapping[str, Sequence[str]],
    everything: bool = False,
    shared_size: bool = False,
    manifests: bool = False,
    used_by: UsedBy | None = None,
    identity: bool = False,
) -> list[Object]:
    """ImageSummary of each image that passes the filters, newest first.

    everything: also show untagged parents of other images; shared_size: fill in `SharedSize`
    manifests: add `Manifests`; identity: add to those where each platform came from
    Raises Invalid (`invalid filter 'x'`), NotFound.
    """
    tests = rules.compile_filters(store, filters)
    images = sorted(store.all(), key=lambda image: rules.created_ns(image) or 0, reverse=True)
    parents = {image.parent for image in images}
    shown = [image for image in images if everything or image.names or image.id not in parents]
    shared = _shared(store) if shared_size else None
    summaries = []
    for image in shown:
        if all(test(image) for test in tests):
            with contextlib.suppress(NotFound):  # another client has just removed it
                summaries.append(_summary(store, image, shared, manifests, used_by, identity))
    return [_of_names(summary, asked) for summary in summaries] if (asked := filters.get("reference")) else summaries


def _of_names(summary: Object, patterns: Sequence[str]) -> Object:
    """The summary of an image with only those of its names that match one of the patterns."""
    matches = rules.by_reference(patterns)
    tags = [tag for tag in summary["RepoTags"] if matches(Reference.parse(tag))]
    named = {Reference.parse(tag).familiar_name for tag in tags}
    digests = [one for one in summary["RepoDigests"] if one.partition("@")[0] in named or matches(Reference.parse(one))]
    return {**summary, "RepoTags": tags, "RepoDigests": digests}


def inspect_json(
    store: Catalogue, image: Image, manifests: bool = False, used_by: UsedBy | None = None, single: bool = False
) -> Object:
    """ImageInspect of one image.

    manifests: add `Manifests`; single: show only the image's platform, by the digest and size of its manifest, because
        the client has named a platform
    """
    config = image.config
    shown = {
        "Id": image.manifest if single else image.id,
        "RepoTags": list(image.repo_tags),
        "RepoDigests": list(image.repo_digests),
        "Comment": _comment(config),
        "Created": image.created,
        "Author": config.get("author", ""),
        "Config": config.get("config") or {},
        "Architecture": config.get("architecture", ""),
        "Variant": config.get("variant", ""),
        "Os": config.get("os", ""),
        "OsVersion": config.get("os.version", ""),
        "Parent": image.parent,
        "Size": image.size if single else _size(store, store.platforms(image)),
        "RootFS": {"Type": "layers", **({"Layers": image.diff_ids} if image.diff_ids else {})},
        "Metadata": {"LastTagTime": rfc3339(image.tagged_ns)},
        "Descriptor": entry_of(store, image) if single and image.manifest != image.id else image.descriptor,
        "Identity": _identity(store, image),
    }
    for name in ("Comment", "Created", "Author", "Variant", "OsVersion", "Parent", "Identity"):
        if not shown[name]:
            del shown[name]
    if manifests:
        shown["Manifests"] = manifests_json(store, image, used_by, identity=False)
    return shown


def manifests_json(store: Catalogue, image: Image, used_by: UsedBy | None, identity: bool) -> list[Object]:
    """ImageManifestSummary of each manifest in the image's index, present or missing; or of its only manifest."""
    here = {one.manifest: one for one in store.platforms(image)}
    containers = used_by(image.id) if used_by else ()
    listed = _index(store, image)
    entries = {entry["digest"]: entry for entry in listed}
    more = {digest: one.descriptor for digest, one in here.items() if digest not in entries}  # the image itself
    shown = []
    for digest, entry in {**entries, **more}.items():
        one = here.get(digest)
        summary = _absent(store, entry) if one is None else _present(store, one, entry, containers)
        if one is not None and identity and (found := _identity(store, one)):
            summary["ImageData"]["Identity"] = found
        shown.append(summary)
    return shown


def _index(store: Catalogue, image: Image) -> list[Object]:
    """The entries of an image's index, and of the indexes in it; none for an image that is a manifest."""
    return list(_entries(store, image.descriptor, _DEEPEST_INDEX))


def _entries(store: Catalogue, part: Object, depth: int) -> Iterator[Object]:
    if part.get("mediaType") not in INDEXES or not depth or not store.content.has(part["digest"]):
        return
    for entry in index_entries(load(store.content.read(part["digest"], LARGEST_DOCUMENT), "index")):
        inner = list(_entries(store, entry, depth - 1))
        yield from inner or [entry]


def entry_of(store: Catalogue, image: Image) -> Object:
    """The descriptor of the manifest of an image's platform, as the index has it."""
    entries = (_cleaned(entry) for entry in _index(store, image) if entry["digest"] == image.manifest)
    return next(entries, image.descriptor)


def _present(store: Catalogue, image: Image, entry: Object, containers: Sequence[User]) -> Object:
    unpacked = sum(image.layer_sizes)
    own = image.descriptor["size"] if image.manifest != image.id else 0  # an index belongs to no single platform
    content = image.content_size - own
    said = _platform(entry.get("platform")) or _platform(image.config)
    return {
        "ID": image.manifest,
        "Descriptor": _cleaned(entry),
        "Available": True,
        "Kind": "image",
        "Size": {"Content": content, "Total": content + unpacked},
        "ImageData": {
            "Platform": said,
            "Containers": [container.id for container in standing(image.layers, containers)],
            "Size": {"Unpacked": unpacked},
            "UnpackedSize": unpacked,  # the API definition requires it too, without describing it
        },
    }


def _absent(store: Catalogue, entry: Object) -> Object:
    """The summary of a manifest that the daemon does not have, made from its entry in the index."""
    shown = {
        "ID": entry["digest"],
        "Descriptor": _cleaned(entry),
        "Available": False,
        "Kind": "unknown",
        "Size": {"Content": 0, "Total": 0},
    }
    annotations = entry.get("annotations")
    attested = annotations.get(_ATTESTED) if isinstance(annotations, dict) else None
    if isinstance(attested, str) and _is_digest(attested):
        return {**shown, "Kind": "attestation", "AttestationData": {"For": attested}}
    said = _platform(entry.get("platform"))
    if not said or said.get("os") == "unknown":
        return shown
    return {
        **shown,
        "Kind": "image",
        "ImageData": {"Platform": said, "Containers": [], "Size": {"Unpacked": 0}, "UnpackedSize": 0},
    }


def _is_digest(text: str) -> bool:
    try:
        check_digest(text)
    except Invalid:
        return False
    return True


def _platform(said: object) -> Object:
    """The valid fields of an OCI platform in an untrusted index or config; empty without architecture and os."""
    if not isinstance(said, dict):
        return {}
    found = {
        key: said[key] for key in _PLATFORM if key != "os.features" and isinstance(said.get(key), str) and said[key]
    }
    features = said.get("os.features")
    if isinstance(features, list) and features and all(isinstance(one, str) for one in features):
        found["os.features"] = features
    return found if found.get("architecture") and found.get("os") else {}


def _cleaned(entry: Object) -> Object:
    """An entry of an index with its valid fields only; digest and size were checked before, the others are here."""
    kind, annotations = entry.get("mediaType"), entry.get("annotations")
    shown = descriptor(kind if isinstance(kind, str) else "", entry["digest"], entry["size"])
    if isinstance(annotations, dict) and all(isinstance(text, str) for text in annotations.values()):
        shown["annotations"] = annotations
    if said := _platform(entry.get("platform")):
        shown["platform"] = said
    return shown


def _size(store: Catalogue, platforms: Sequence[Image]) -> int:
    """Bytes on the disk of an image with all its platforms; what they share is counted once."""
    if len(platforms) == 1:
        return platforms[0].size
    layers = {name: size for one in platforms for name, size in zip(one.layers, one.layer_sizes, strict=True)}
    with store.database.reading() as connection:
        blobs = table.image_blobs(connection, platforms[0].id)
    return sum(layers.values()) + sum(size for _, size in blobs)


def _identity(store: Catalogue, image: Image) -> Object | None:
    """The `Identity` of the API: the repositories that the image was pulled from or pushed to; None without any."""
    with store.database.reading() as connection:
        found = blobsources.everywhere(connection, image.manifest)
    return {"Pull": [{"Repository": name} for name in found]} if found else None


def created_seconds(created: str) -> int:
    """Seconds since the epoch of an RFC 3339 time; 0 for an empty or invalid one."""
    try:
        return moments.parse(created, 0) // _SECOND
    except Invalid:
        return 0


def _summary(
    store: Catalogue,
    image: Image,
    shared: set[str] | None,
    manifests: bool,
    used_by: UsedBy | None,
    identity: bool,
) -> Object:
    platforms = store.platforms(image) if image.descriptor["mediaType"] in INDEXES else [image]
    shown = {
        "Containers": len(used_by(image.id)) if used_by else -1,
        "Created": created_seconds(image.created),
        "Id": image.id,
        "Labels": (image.config.get("config") or {}).get("Labels") or {},
        "ParentId": image.parent,
        "Descriptor": image.descriptor,
        "RepoDigests": list(image.repo_digests),
        "RepoTags": list(image.repo_tags),
        "SharedSize": -1,
        "Size": _size(store, platforms),
    }
    if shared is not None:
        parts = {name: size for one in platforms for name, size in zip(one.layers, one.layer_sizes, strict=True)}
        with store.database.reading() as connection:
            parts |= table.image_blobs(connection, image.id)
        shown["SharedSize"] = sum(size for name, size in parts.items() if name in shared)
    if manifests:
        shown["Manifests"] = manifests_json(store, image, used_by, identity)
    return shown


def _comment(config: Object) -> str:
    """The image's comment, or else that of the last step, where docker import and commit put theirs."""
    history = config.get("history")
    last = history[-1] if isinstance(history, list) and history else {}
    return config.get("comment") or (last.get("comment", "") if isinstance(last, dict) else "")


def _shared(store: Catalogue) -> set[str]:
    """Numbers of the layers and digests of the blobs that more than one image has."""
    with store.database.reading() as connection:
        return {str(number) for number in table.shared_layers(connection)} | table.shared_blobs(connection)
