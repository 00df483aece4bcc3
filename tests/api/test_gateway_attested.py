"""Attestations that a frontend brings with its result: what becomes of them, and what is refused."""

import hashlib
import json
import uuid
from typing import Any

import pytest

from engine.daemon.buildkit.messages import gateway
from engine.daemon.images import platform as platforms
from engine.errors import EngineError
from tests.api.building import build
from tests.harness.daemon import Daemon
from tests.harness.frontends import Frontend, frontend
from tests.harness.graphs import MKFILE, Writer
from tests.harness.registry import OCI_INDEX, OCI_MANIFEST, Registry

ACCEPT = {"Accept": f"{OCI_INDEX}, {OCI_MANIFEST}"}
PLATFORM = str(platforms.host())
SPDX, KIND = "https://spdx.dev/Document", "https://me.example/said/v1"


def tree(asked: Frontend, files: dict[str, bytes]) -> str:
    """The id of a tree with these files."""
    writer = Writer()
    made = writer.files(*({"mkfile": {**MKFILE, "path": f"/{name}", "data": data}} for name, data in files.items()))
    return asked.solve(writer.definition(made))


def returned(asked: Frontend, *said: gateway.Attestation, name: str = PLATFORM) -> None:
    """End the build with a tree of one file, and these attestations of it."""
    config = json.dumps(
        {"architecture": platforms.host().architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers"}}
    ).encode()
    asked(
        "Return",
        {
            "result": {
                "ref": {"id": tree(asked, {"f": b"x"})},
                "metadata": {"containerimage.config": config},
                "attestations": {name: {"attestation": list(said)}},
            }
        },
    )


def pushed(registry: Registry) -> tuple[str, dict[str, Any]]:
    """A repository's name, and what has an image pushed to it."""
    name = f"attested-{uuid.uuid4().hex[:8]}"
    attrs = {"name": f"{registry.address}/{name}", "push": "true", "store": "false"}
    return name, {"Exporters": [{"Type": "image", "Attrs": attrs}]}


def document(registry: Registry, name: str, kind: str, digest: str) -> Any:
    return json.loads(registry.request("GET", f"/v2/{name}/{kind}/{digest}", headers=ACCEPT).body)


def statements(registry: Registry, name: str) -> tuple[str, list[Any]]:
    """The digest of an image, and the statements about it."""
    image, beside = document(registry, name, "manifests", "latest")["manifests"]
    manifest = document(registry, name, "manifests", beside["digest"])
    assert beside["annotations"]["vnd.docker.reference.digest"] == image["digest"]
    return image["digest"], [document(registry, name, "blobs", each["digest"]) for each in manifest["layers"]]


def test_what_a_frontend_attests_stands_in_the_index(daemon: Daemon, registry: Registry) -> None:
    """Single predicates and bundles of whole statements; about the result, also by a name of their own, or others."""
    name, exporters = pushed(registry)
    other = {"name": "other", "digest": {"sha256": hashlib.sha256(b"other").hexdigest()}}
    bundled = {"_type": "x", "predicateType": SPDX, "predicate": {"core": 1}}
    with frontend(daemon, **exporters) as asked:
        files = tree(asked, {"p.json": b' {"a": "\\u00e9"}\n', "none": b""})
        bundle = tree(
            asked,
            {
                "more.json": json.dumps({**bundled, "predicate": {"core": 0}, "subject": [other]}).encode(),
                "sbom.json": json.dumps(bundled).encode(),
            },
        )
        raw = {"kind": gateway.Raw, "name": "other", "digest": [f"sha256:{other['digest']['sha256']}"]}
        returned(
            asked,
            {"ref": {"id": files}, "path": "/p.json", "inTotoPredicateType": KIND},
            {
                "ref": {"id": files},
                "path": "none",
                "inTotoPredicateType": KIND,
                "inTotoSubjects": [{"kind": gateway.Self, "name": "mine"}, raw],
            },
            {
                "kind": gateway.Bundle,
                "ref": {"id": bundle},
                "path": "/",
                "inTotoPredicateType": SPDX,
                "metadata": {"sbom-core": b"sbom"},
            },
        )
    assert not isinstance(asked.ended[0], EngineError), asked.ended
    digest, said = statements(registry, name)
    algorithm, _, value = digest.partition(":")
    assert [each["predicateType"] for each in said] == [SPDX, KIND, KIND, SPDX]
    assert said[0]["predicate"]["core"] == 1 and "creationInfo" in said[0]["predicate"]  # as of any bill of the files
    assert [each["predicate"] for each in said[1:]] == [{"a": "é"}, None, {"core": 0}]
    result = {
        "name": f"pkg:docker/{registry.address}/{name}@latest?platform={PLATFORM.replace('/', '%2F')}",
        "digest": {algorithm: value},
    }
    assert said[1]["subject"] == [result]
    assert said[2]["subject"] == [result, {**result, "name": "mine"}, other]
    assert said[3]["subject"] == [other]


def test_a_bill_that_a_frontend_brings_stands_in_the_place_of_a_generators(
    daemon: Daemon, busybox: str, registry: Registry
) -> None:
    """This generator can do nothing but fail. So whoever runs it sees the build fail."""
    generator = build(daemon, f'FROM {busybox}\nENTRYPOINT ["false"]', t="failing-generator")
    assert generator.error == ""
    wanted = {"FrontendAttrs": {"attest:sbom": "generator=failing-generator"}}
    name, exporters = pushed(registry)
    with frontend(daemon, **exporters, **wanted) as asked:
        files = tree(asked, {"bill.json": b'{"packages": []}'})
        returned(asked, {"ref": {"id": files}, "path": "bill.json", "inTotoPredicateType": SPDX})
    assert not isinstance(asked.ended[0], EngineError), asked.ended
    _, said = statements(registry, name)
    assert [(each["predicateType"], each["predicate"]["packages"]) for each in said] == [(SPDX, [])]
    with frontend(daemon, **exporters, **wanted) as asked:
        files = tree(asked, {"p": b"{}"})
        returned(asked, {"ref": {"id": files}, "path": "p", "inTotoPredicateType": KIND})
    daemon.request("DELETE", "/images/failing-generator?force=1")
    assert "exit code: 1" in str(asked.ended[0]), asked.ended


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"path": "p", "inTotoPredicateType": "https://slsa.dev/provenance/v1"}, "may not set provenance"),
        ({"path": "/"}, "does not have set path"),
        ({"path": "none"}, "no such file"),
        ({"path": "no-json"}, "not a single JSON object"),
        ({"kind": gateway.Bundle, "path": "none"}, "no such directory"),
        ({"kind": gateway.Bundle, "path": "/"}, "not a single JSON object"),
        ({"path": "p", "inTotoSubjects": [{"kind": gateway.Raw, "digest": ["sha256:../.."]}]}, "a digest of a subject"),
    ],
)
def test_what_cannot_be_attested_fails_the_build(daemon: Daemon, said: dict[str, Any], words: str) -> None:
    with frontend(daemon, Exporters=[{"Type": "image", "Attrs": {"name": "x", "store": "false"}}]) as asked:
        files = tree(asked, {"p": b"{}", "no-json": b"{"})
        returned(asked, {"ref": {"id": files}, **said})  # type: ignore[typeddict-item]
    assert isinstance(asked.ended[0], EngineError) and words in str(asked.ended[0])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "does not have available content"),
        ({"ref": {"id": "none"}}, "no such ref: none"),
        ({"kind": 7}, "unknown attestation kind 7"),
        ({"ref": {"id": "x"}, "inTotoSubjects": [{"kind": 9}]}, "unknown attestation subject type 9"),
    ],
)
def test_what_is_no_attestation_is_told_to_the_frontend(daemon: Daemon, said: gateway.Attestation, words: str) -> None:
    with frontend(daemon) as asked, pytest.raises(EngineError, match=words):
        returned(asked, said)


def test_there_is_a_bound_and_every_name_is_one_of_the_result(daemon: Daemon) -> None:
    with frontend(daemon) as asked:
        one: gateway.Attestation = {"ref": {"id": tree(asked, {"p": b"{}"})}, "path": "p"}
        with pytest.raises(EngineError, match="more than 100 attestations"):
            returned(asked, *[one] * 101)
        returned(asked, one, name="linux/other")
    assert "attestations of linux/other, which the result does not have" in str(asked.ended[0])
