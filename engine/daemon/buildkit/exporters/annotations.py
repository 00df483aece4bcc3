"""The annotations that a client asks for: on manifests, on the index, and on the descriptors that name them.

Pure. Form: `annotation[-KIND][[PLATFORM]].KEY`, with the kinds manifest (which is meant without one), index,
manifest-descriptor and index-descriptor (buildkit, exporter/containerimage/exptypes/annotations.go).
"""

import re
from collections.abc import Mapping

from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.dataclass import dataclass
from engine.errors import Invalid

PREFIX = "annotation"
_MANIFEST, _MANIFEST_DESCRIPTOR = "manifest", "manifest-descriptor"
INDEX, INDEX_DESCRIPTOR = "index", "index-descriptor"
_KEY = re.compile(r"annotation(?:-([a-z-]+))?(?:\[([A-Za-z0-9_/-]+)\])?\.(\S+)")
_KINDS = (_MANIFEST, _MANIFEST_DESCRIPTOR, INDEX, INDEX_DESCRIPTOR)
_FOR_PLATFORMS = (_MANIFEST, _MANIFEST_DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class _Annotation:
    kind: str
    platform: Platform | None
    key: str
    value: str


class Annotations:
    """What is to stand where. given: the options, each with its whole name. Raises Invalid"""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._all = [_read(name, value) for name, value in given.items()]

    def above(self, metadata: Mapping[str, bytes]) -> "Annotations":
        """These with those of a frontend, which take precedence; what else it says is passed over. Raises Invalid."""
        more = {name: value.decode("utf-8", "replace") for name, value in metadata.items() if _KEY.fullmatch(name)}
        return Annotations({name: value for name, value in self._given.items() if name not in more} | more)

    def check(self, wanted: list[Platform], oci: bool, indexed: bool) -> None:
        """Raise Invalid for what has no place. wanted: the platforms that there are

        oci: the documents are OCI's; indexed: there is an index
        """
        for each in self._all:
            if each.platform is not None and each.platform not in wanted:
                raise Invalid(f"invalid annotation: no platform {each.platform} found in source")
            if not oci and each.kind != _MANIFEST:
                raise Invalid('cannot export annotations with "oci-mediatypes=false"')
            if not indexed and each.kind in (INDEX, INDEX_DESCRIPTOR):
                raise Invalid("index annotations not supported for single platform export")

    def manifest(self, platform: Platform) -> dict[str, str]:
        """On the manifest of that platform."""
        return self._of(_MANIFEST, platform)

    def manifest_descriptor(self, platform: Platform) -> dict[str, str]:
        """On the descriptor that names it."""
        return self._of(_MANIFEST_DESCRIPTOR, platform)

    def whole(self, kind: str) -> dict[str, str]:
        """Of the index (`INDEX`) or of the descriptor that names it (`INDEX_DESCRIPTOR`)."""
        return self._of(kind, None)

    def _of(self, kind: str, platform: Platform | None) -> dict[str, str]:
        """A platform's own take precedence over those for all of them."""
        fitting = [each for each in self._all if each.kind == kind and each.platform in (None, platform)]
        ordered = sorted(fitting, key=lambda each: each.platform is not None)
        return dict(sorted({each.key: each.value for each in ordered}.items()))


def _read(name: str, value: str) -> _Annotation:
    found = _KEY.fullmatch(name)
    if found is None:
        raise Invalid(f"invalid annotation {name}")
    kind = found[1] or _MANIFEST
    if kind not in _KINDS:
        raise Invalid(f"unrecognized annotation type {kind}")
    if found[2] and kind not in _FOR_PLATFORMS:
        raise Invalid(f"invalid annotation {name}: an index has no platform")
    return _Annotation(kind, platforms.parse(found[2]) if found[2] else None, found[3], value)
