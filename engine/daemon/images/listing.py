"""What the API shows of images: GET /images/json with its filters, and GET /images/{name}/json.

Runs in the daemon, on the request's thread; reads, and changes nothing. Shapes: ImageSummary, ImageInspect and
ImageManifestSummary of the definition, filled in as a current dockerd does (transcript 208-210, 232).
"""

import fnmatch
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.daemon.clock import rfc3339
from engine.daemon.images import platform
from engine.daemon.images.image import LARGEST_DOCUMENT, Image, descriptor, load, media_type_of
from engine.daemon.images.reference import Reference
from engine.daemon.store import images as table
from engine.errors import Invalid

if TYPE_CHECKING:
    from engine.daemon.images.store import ImageStore

_TRUE, _FALSE = ("1", "true", "True", "TRUE", "t", "T"), ("0", "false", "False", "FALSE", "f", "F")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def images_json(
    store: "ImageStore",
    filters: dict[str, list[str]],
    everything: bool,
    shared_size: bool,
    manifests: bool,
    used_by: Callable[[str], Sequence] | None,
) -> list[dict]:
    """ImageSummary of each image that passes the filters, newest first.

    everything: also the untagged parents of other images. Raises Invalid (`invalid filter 'x'`), NotFound.
    """
    tests = [_test(store, name, values) for name, values in filters.items()]
    images = sorted(store.all(), key=lambda image: created_seconds(image.created), reverse=True)
    parents = {image.parent for image in images}
    shown = [image for image in images if everything or image.names or image.id not in parents]
    shared = _shared_layers(store) if shared_size else None
    return [_summary(store, image, shared, manifests, used_by) for image in shown if all(test(image) for test in tests)]


def inspect_json(store: "ImageStore", image: Image, manifests: bool = False) -> dict:
    """ImageInspect of one image."""
    config = image.config
    shown = {
        "Id": image.id,
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
        "Size": image.size,
        "RootFS": {"Type": "layers", "Layers": image.diff_ids},
        "Metadata": {"LastTagTime": rfc3339(image.tagged_ns)},
        "Descriptor": image.descriptor,
        "Identity": {"Pull": [{"Repository": name} for name in _repositories(image)]},
    }
    for name in ("Comment", "Created", "Author", "Variant", "OsVersion", "Parent"):
        if not shown[name]:
            del shown[name]
    if not image.names or image.parent:  # what was committed here came from nowhere
        del shown["Identity"]
    if manifests:
        shown["Manifests"] = [manifest_json(store, image, [])]
    return shown


def manifest_json(store: "ImageStore", image: Image, containers: Sequence[str]) -> dict:
    """ImageManifestSummary of the one platform that is here."""
    unpacked = sum(image.layer_sizes)
    manifest = store.content.read(image.manifest, LARGEST_DOCUMENT)
    kind = media_type_of(load(manifest, "manifest"))
    shown = platform.of(image.config)
    data = {"architecture": shown.architecture, "os": shown.os}
    if shown.variant:
        data["variant"] = shown.variant
    return {
        "ID": image.manifest,
        "Descriptor": {**descriptor(kind, image.manifest, len(manifest)), "platform": data},
        "Available": True,
        "Kind": "image",
        "Size": {"Content": image.content_size, "Total": image.content_size + unpacked},
        "ImageData": {"Platform": data, "Containers": list(containers), "Size": {"Unpacked": unpacked}},
    }


def created_seconds(created: str) -> int:
    """Seconds since the epoch of an RFC 3339 time; 0 for none, or for one that nobody can read."""
    import datetime  # an idle daemon does without it

    try:
        return int(datetime.datetime.fromisoformat(created).timestamp())
    except (ValueError, OverflowError):
        return 0


def _summary(
    store: "ImageStore",
    image: Image,
    shared: set[str] | None,
    manifests: bool,
    used_by: Callable[[str], Sequence] | None,
) -> dict:
    containers = [container.id for container in used_by(image.id)] if used_by else []
    shown = {
        "Containers": len(containers) if used_by else -1,
        "Created": created_seconds(image.created),
        "Id": image.id,
        "Labels": (image.config.get("config") or {}).get("Labels") or {},
        "ParentId": image.parent,
        "Descriptor": image.descriptor,
        "RepoDigests": list(image.repo_digests),
        "RepoTags": list(image.repo_tags),
        "SharedSize": -1,
        "Size": image.size,
    }
    if shared is not None:
        pairs = zip(image.layers, image.layer_sizes, strict=True)
        shown["SharedSize"] = sum(size for name, size in pairs if name in shared)
    if manifests:
        shown["Manifests"] = [manifest_json(store, image, containers)]
    return shown


def _comment(config: dict) -> str:
    """The last step's comment, where docker import and commit put theirs."""
    history = config.get("history")
    last = history[-1] if isinstance(history, list) and history else {}
    return config.get("comment") or (last.get("comment", "") if isinstance(last, dict) else "")


def _repositories(image: Image) -> list[str]:
    return list(dict.fromkeys(Reference.parse(name).name for name in image.names))


def _shared_layers(store: "ImageStore") -> set[str]:
    with store.database.reading() as connection:
        return {str(number) for number in table.shared_layers(connection)}


# Filters: each makes a test of an image out of the values given; more than one value is "any of them".


def _test(store: "ImageStore", name: str, values: list[str]) -> Callable[[Image], bool]:
    make = FILTERS.get(name)
    if make is None:
        raise Invalid(f"invalid filter '{name}'")
    return make(store, values)


def _dangling(_: "ImageStore", values: list[str]) -> Callable[[Image], bool]:
    unknown = [value for value in values if value not in _TRUE + _FALSE]
    if unknown or len(set(values)) != 1:
        raise Invalid(f"invalid filter 'dangling=[{' '.join(values)}]'")
    wanted = values[0] in _TRUE
    return lambda image: bool(image.names) != wanted


def _label(_: "ImageStore", values: list[str]) -> Callable[[Image], bool]:
    pairs = [value.partition("=") for value in values]

    def test(image: Image) -> bool:
        labels = (image.config.get("config") or {}).get("Labels") or {}
        return all(key in labels and (not equals or labels[key] == value) for key, equals, value in pairs)

    return test


def _not_label(store: "ImageStore", values: list[str]) -> Callable[[Image], bool]:
    tests = [_label(store, [value]) for value in values]
    return lambda image: not any(test(image) for test in tests)


def _reference(_: "ImageStore", values: list[str]) -> Callable[[Image], bool]:
    def test(image: Image) -> bool:
        return any(_matches(Reference.parse(name), pattern) for name in image.names for pattern in values)

    return test


def _matches(name: Reference, pattern: str) -> bool:
    """As Go's reference.FamiliarMatch: a pattern's * stays within one part of the path."""
    texts = (name.familiar, name.familiar_name)
    return any(
        text.count("/") == pattern.count("/")
        and all(
            fnmatch.fnmatchcase(part, wanted) for part, wanted in zip(text.split("/"), pattern.split("/"), strict=True)
        )
        for text in texts
    )


def _before(store: "ImageStore", values: list[str]) -> Callable[[Image], bool]:
    limit = max(created_seconds(store.find(value).created) for value in values)
    return lambda image: created_seconds(image.created) < limit


def _since(store: "ImageStore", values: list[str]) -> Callable[[Image], bool]:
    limit = min(created_seconds(store.find(value).created) for value in values)
    return lambda image: created_seconds(image.created) > limit


def _until(_: "ImageStore", values: list[str]) -> Callable[[Image], bool]:
    if len(values) != 1:
        raise Invalid("more than one until filter specified")
    limit = _point(values[0])
    return lambda image: created_seconds(image.created) < limit


def _point(value: str) -> float:
    """Seconds since the epoch that a timestamp, a date or a Go duration (so long ago) means."""
    if re.fullmatch(r"-?\d+(\.\d+)?", value):
        return float(value)
    if value and not _DURATION.sub("", value):
        return time.time() - sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(value))
    import datetime  # as above

    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError as error:
        raise Invalid(f"invalid filter 'until={value}'") from error
    # Without a zone it is UTC: the daemon's own zone is nothing that a client can know.
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


FILTERS: dict[str, Callable[["ImageStore", list[str]], Callable[[Image], bool]]] = {
    "dangling": _dangling,
    "label": _label,
    "label!": _not_label,
    "reference": _reference,
    "before": _before,
    "since": _since,
    "until": _until,
}
