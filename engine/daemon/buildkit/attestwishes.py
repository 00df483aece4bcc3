"""What a client asks to be attested of a build's result, read from the frontend's options.

Pure. An attestation is asked for by `attest:KIND`, or by the argument BUILDKIT_ATTEST_KIND, whose values are options of
the kind with commas between them (buildkit, frontend/attestations/parse.go).
"""

import csv
from collections.abc import Mapping

from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.provenance import predicate
from engine.daemon.buildkit.provenance.predicate import Asked
from engine.daemon.images.reference import Reference
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import quoted

_OPTION, _ARGUMENT = "attest:", "build-arg:BUILDKIT_ATTEST_"
_PROVENANCE, _SBOM = "provenance", "sbom"
_GENERATOR = "docker/buildkit-syft-scanner:stable-1"
_MOST_PARAMETERS = 100


@dataclass(frozen=True, slots=True)
class Generator:
    """What writes a bill of materials. image: has the program; parameters: for it, values by names"""

    image: Reference
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Attests:
    """All that is asked for; None for what is not."""

    provenance: Asked | None = None
    generator: Generator | None = None


def read(options: Mapping[str, str]) -> Attests:
    """What the options ask for. Raises Invalid, NotBuilt."""
    asked: dict[str, str] = {}
    for prefix in (_ARGUMENT, _OPTION):  # the option of a kind goes before its argument
        for key, value in options.items():
            if key.startswith(prefix):
                asked[key.removeprefix(prefix).lower()] = value
    for kind in sorted(asked):
        if kind not in (_PROVENANCE, _SBOM):
            raise Invalid(f"unknown attestation type {quoted(kind)}")
    provenance = _attrs(_PROVENANCE, asked[_PROVENANCE]) if _PROVENANCE in asked else None
    return Attests(
        None if provenance is None else predicate.asked(provenance),
        _generator(asked[_SBOM]) if _SBOM in asked else None,
    )


def _attrs(kind: str, value: str) -> Attrs:
    return Attrs(f"the attestation {kind}", _pairs(value))


def _pairs(value: str) -> dict[str, str]:
    try:
        words = next(csv.reader([value]), [])
    except csv.Error as error:
        raise Invalid(f"invalid attestation: {error}") from error
    pairs = {key: text for key, _, text in (word.partition("=") for word in words if word)}
    pairs.pop("type", "")  # which the option's name says already
    return pairs


def _generator(value: str) -> Generator | None:
    attrs = _attrs(_SBOM, value)
    if attrs.flag("disabled"):
        return None
    name = attrs.text("generator", _GENERATOR)
    if not name:
        raise Invalid("sbom generator cannot be empty")
    try:
        image = Reference.parse(name).with_default_tag()
    except Invalid as error:
        raise Invalid(f"failed to parse sbom generator {name}: {error}") from error
    parameters = attrs.beginning("")
    if len(parameters) > _MOST_PARAMETERS:
        raise Invalid(f"an sbom generator has at most {_MOST_PARAMETERS} parameters")
    for key, text in parameters.items():
        if not key or "\0" in key + text:
            raise Invalid(f"invalid parameter {quoted(key)} of an sbom generator")
    return Generator(image, parameters)
