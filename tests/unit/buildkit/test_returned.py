"""A frontend's result as promises, and as a message for the frontend around it."""

from engine.daemon.buildkit.llb import returned
from engine.daemon.buildkit.llb.references import Reference, References
from engine.daemon.buildkit.messages import gateway, ops
from engine.daemon.buildkit.outcome import Tree
from engine.daemon.images import platform as platforms
from engine.protocols import protobuf

HOST = str(platforms.host())


def reference() -> Reference:
    definition: ops.Definition = {"ops": [], "metadata": {}, "Source": None}
    return Reference(definition, lambda: Tree(platforms.host(), (), {}))


def decoded(result: gateway.Result) -> gateway.Result:
    """The message as it comes over the wire, with all of its fields."""
    return protobuf.decode(gateway.Result, protobuf.encode(gateway.Result, result))


def test_what_an_inner_frontend_attests_is_told_to_the_outer_one_and_may_be_returned_by_it() -> None:
    inner, outer = References(), References()
    said: gateway.Attestation = {
        "kind": gateway.Bundle,
        "metadata": {"sbom-core": b"sbom"},
        "path": "/p",
        "inTotoPredicateType": "https://me.example/said",
        "inTotoSubjects": [{"kind": gateway.Raw, "digest": ["sha256:x"], "name": "n"}],
    }
    tree, files = inner.add(reference()), inner.add(reference())
    given: gateway.Result = {
        "ref": {"id": tree},
        "attestations": {HOST: {"attestation": [{**said, "ref": {"id": files}}]}},
    }
    answer = returned.read(decoded(given), inner)
    asked = protobuf.decode(gateway.SolveRequest, protobuf.encode(gateway.SolveRequest, {"allowResultArrayRef": True}))
    told = returned.told(answer, outer, asked)["result"]
    assert told is not None
    (one,) = told["attestations"][HOST]["attestation"]
    assert one["ref"] is not None and one["ref"]["id"] != files
    again = returned.read(decoded(told), outer)
    assert [each.message["path"] for each in again.attestations[HOST]] == ["/p"]
    found = returned.outcome(again)
    assert found is not None
    (brought,) = found.trees[0].brought
    assert (brought.bundled, brought.path, brought.subjects) == (True, "/p", (("n", ["sha256:x"], False),))
