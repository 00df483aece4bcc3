"""What a client asks to be attested."""

import pytest

from engine.daemon.buildkit import attestwishes
from engine.daemon.buildkit.attestwishes import Attests
from engine.errors import EngineError


def test_nothing_is_asked() -> None:
    assert attestwishes.read({"filename": "Dockerfile"}) == Attests()
    assert attestwishes.read({"attest:sbom": "disabled=true", "attest:provenance": "disabled=true"}) == Attests()


def test_a_bill_of_materials_has_a_generator_with_parameters() -> None:
    asked = attestwishes.read({"attest:sbom": ""}).generator
    assert asked is not None
    assert asked.image.canonical == "docker.io/docker/buildkit-syft-scanner:stable-1"
    assert asked.parameters == {}
    asked = attestwishes.read({"attest:sbom": 'type=sbom,generator=r.example/g,"a=1,2",b='}).generator
    assert asked is not None
    assert asked.image.canonical == "r.example/g:latest"
    assert asked.parameters == {"a": "1,2", "b": ""}


def test_an_argument_asks_as_well_and_the_option_goes_before_it() -> None:
    asked = attestwishes.read({"build-arg:BUILDKIT_ATTEST_SBOM": "generator=g", "attest:provenance": "mode=min"})
    assert asked.generator is not None and asked.generator.image.canonical == "docker.io/library/g:latest"
    assert asked.provenance is not None and asked.provenance.mode == "min"
    both = attestwishes.read({"build-arg:BUILDKIT_ATTEST_SBOM": "generator=g", "attest:sbom": "generator=h"})
    assert both.generator is not None and both.generator.image.canonical == "docker.io/library/h:latest"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attest:sbom": "generator="}, "sbom generator cannot be empty"),
        ({"attest:sbom": "generator=A"}, "failed to parse sbom generator A"),
        ({"attest:sbom": "a=\0"}, "invalid parameter"),
        ({"attest:sbom": ",".join(f"p{number}=" for number in range(101))}, "at most 100 parameters"),
        ({"attest:other": ""}, 'unknown attestation type "other"'),
        ({"build-arg:BUILDKIT_ATTEST_OTHER": ""}, 'unknown attestation type "other"'),
        ({"attest:provenance": "made-up=1"}, "the option made-up of the attestation provenance"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        attestwishes.read(options)
