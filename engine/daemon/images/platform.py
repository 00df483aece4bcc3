"""Platforms of images (os/architecture/variant): parsing, the host's own, and choosing the best manifest or image for
one.

Pure, but for reading the host's machine name once. Names are as in Go (GOOS/GOARCH/variant); see containerd's
`platforms`.
"""

import functools
import os
from collections.abc import Sequence
from urllib.parse import quote, unquote

from engine.annotating import Protocol, TypeVar
from engine.daemon import jsontext
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field, replace
from engine.errors import Invalid
from engine.literals import quoted
from engine.regex import regex

# Machine name of uname(2), or another common name → architecture and variant.
_ARCHITECTURES = {
    "x86_64": ("amd64", ""),
    "x86-64": ("amd64", ""),
    "amd64": ("amd64", ""),
    "aarch64": ("arm64", ""),
    "arm64": ("arm64", ""),
    "armv8l": ("arm", "v7"),
    "armv7l": ("arm", "v7"),
    "armhf": ("arm", "v7"),
    "armv6l": ("arm", "v6"),
    "armel": ("arm", "v6"),
    "arm": ("arm", "v7"),
    "i386": ("386", ""),
    "i686": ("386", ""),
    "riscv64": ("riscv64", ""),
}
# What a processor of amd64 of some level runs: those of the levels below it.
_LEVELS = (("amd64", "v3"), ("amd64", "v2"), ("amd64", ""), ("386", ""))
# (architecture, variant) → the others whose programs it can run too, best first.
_ALSO_RUNS = {
    ("arm64", "v8"): (("arm", "v8"), ("arm", "v7"), ("arm", "v6"), ("arm", "v5")),
    ("arm", "v8"): (("arm", "v7"), ("arm", "v6"), ("arm", "v5")),
    ("arm", "v7"): (("arm", "v6"), ("arm", "v5")),
    ("arm", "v6"): (("arm", "v5"),),
    **{("amd64", f"v{level}"): _LEVELS[-level:] for level in (2, 3, 4)},
    ("amd64", ""): _LEVELS[-1:],
}
# Variants that mean the same as none: the same platform is written with and without them.
_PLAIN_VARIANTS = {("arm64", "v8"), ("arm64", "8"), ("amd64", "v1")}
_PART, _PART_IS = regex(r"[A-Za-z0-9_.-]+"), "^[A-Za-z0-9_.-]+$"
_OS_IS = r"^([A-Za-z0-9_-]+)(?:\(([A-Za-z0-9_.%-]*)((?:\+[A-Za-z0-9_.%-]+)*)\))?$"
_OS = regex(_OS_IS.removesuffix("$"))


@dataclass(frozen=True, slots=True)
class Platform:
    """os/architecture/variant in a normal form, so that equal platforms compare equal.

    version, features: of the OS, as the client has named them; they choose among images of Windows alone
    """

    os: str
    architecture: str
    variant: str = ""
    version: str = field(default="", compare=False)
    features: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    @property
    def whole(self) -> str:
        """The platform with the version and the features of its OS."""
        more = "+".join(map(quote, (self.version, *self.features)))
        return str(self).replace(self.os, f"{self.os}({more})", 1) if more else str(self)


def _normal(system: str, architecture: str, variant: str) -> Platform:
    architecture, default = _ARCHITECTURES.get(architecture.lower(), (architecture.lower(), ""))
    variant = variant.lower() or default
    if (architecture, variant) in _PLAIN_VARIANTS:
        variant = ""
    return Platform(_system(system), architecture, variant)


def _system(name: str) -> str:
    return "darwin" if name.lower() == "macos" else name.lower()


@functools.cache
def host() -> Platform:
    """The platform that this host runs."""
    return _normal("linux", os.uname().machine, "")


def parse(text: str) -> Platform:
    """The platform that a client wrote: `linux/arm64`, `arm64`, `linux`, `linux/arm/v6`. Raises Invalid."""
    system, *parts = text.split("/", 3)
    known = _OS.fullmatch(system)
    if "*" in text:
        raise _refused(f"{quoted(text)}: wildcards not yet supported")
    if known is None:
        what = f"{quoted(system)} is an invalid OS component of {quoted(text)}: OSAndVersion"
        raise _refused(f"{what} specifier component must match {quoted(_OS_IS)}")
    for part in parts:
        if not _PART.fullmatch(part):
            what = f"{quoted(part)} is an invalid component of {quoted(text)}: platform"
            raise _refused(f"{what} specifier component must match {quoted(_PART_IS)}")
    if len(parts) > 2:
        raise _refused(f"{quoted(text)}: cannot parse platform specifier")
    if parts:
        plain = _normal(known[1], *parts, *[""] * (2 - len(parts)))
        features = sorted(filter(None, map(unquote, (known[3] or "").split("+"))))
        return replace(plain, version=unquote(known[2] or ""), features=tuple(features))
    if _system(known[1]) in ("linux", "windows", "darwin", "freebsd"):
        return _normal(known[1], host().architecture, host().variant)
    if system.lower() in _ARCHITECTURES or system.lower() in {known for known, _ in _ARCHITECTURES.values()}:
        return _normal("linux", system, "")
    raise _refused(f"{quoted(text)}: unknown operating system or architecture")


def wanted(text: str) -> Platform:
    """The platform that a client names, the host's where it names none. Raises Invalid."""
    return parse(text) if text else host()


def _refused(why: str) -> Invalid:
    return Invalid(f"{why}: invalid argument")


def from_json(text: str) -> Platform:
    """The platform in an OCI platform object in JSON, which newer API parameters use. Raises Invalid."""
    try:
        document = jsontext.parse(text, "")
    except Invalid as error:
        raise Invalid(f"failed to parse platform: {error}") from error
    parts = [document.get(key) or "" for key in ("os", "architecture", "variant")] if isinstance(document, dict) else []
    if not parts or not all(isinstance(part, str) for part in parts):
        raise Invalid("failed to parse platform: an object of strings is expected")
    if parts[2] and not (parts[0] or parts[1]):
        raise Invalid("optional platform fields provided, but OS and Architecture are missing")
    if not (parts[0] and parts[1]):
        raise Invalid("both OS and Architecture must be provided")
    return _normal(*parts)


def of(document: Object) -> Platform:
    """The platform in an image's config, or in the `platform` of a manifest's descriptor."""
    return _normal(
        str(document.get("os") or "linux"), str(document.get("architecture") or ""), str(document.get("variant") or "")
    )


def rank(wanted: Platform, offered: Platform, strict: bool) -> int | None:
    """How well the platform `offered` serves for `wanted`: 0 is best, None when it cannot serve.

    strict: the client named the platform, so another architecture that merely runs on it does not serve
    """
    if wanted == offered:
        return 0
    if wanted.os != offered.os:
        return None
    variant = "v8" if (wanted.architecture, wanted.variant) == ("arm64", "") else wanted.variant
    others = _ALSO_RUNS.get((wanted.architecture, variant), ())
    for place, other in enumerate(others, start=1):
        if (offered.architecture, offered.variant) != other:
            continue
        # The client also accepts a lower variant of the same architecture, but not another architecture.
        return place if not strict or other[0] == wanted.architecture else None
    return None


def choose(manifests: list[Object], wanted: Platform, strict: bool) -> Object | None:
    """The descriptor in an index that fits best, the first one among equals; None when none fits. strict: see `rank`"""
    best: tuple[int, Object] | None = None
    for descriptor in manifests:
        platform = descriptor.get("platform")
        if not isinstance(platform, dict) or platform.get("architecture") == "unknown":
            continue
        place = rank(wanted, of(platform), strict)
        if place is not None and (best is None or place < best[0]):
            best = place, descriptor
    return best and best[1]


class Configured(Protocol):
    """An object with an image's config: an `Image`, or the parts of one that is being added."""

    @property
    def config(self) -> Object:
        """The image's config document."""


One = TypeVar("One", bound=Configured)


def best(images: Sequence[One], wanted: Platform, strict: bool) -> One | None:
    """The one of `images` that fits best, the first one among equals; None when none fits. strict: see `rank`"""
    ranked = [(place, image) for image in images if (place := rank(wanted, of(image.config), strict)) is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def sorted_for(wanted: Platform, images: list[One]) -> list[One]:
    """The images, the best one for `wanted` first; those that cannot serve come last, in order of their platforms."""

    def key(image: One) -> tuple[bool, int, str]:
        offered = of(image.config)
        place = rank(wanted, offered, strict=False)
        return place is None, place or 0, str(offered)

    return sorted(images, key=key) if len(images) > 1 else images
