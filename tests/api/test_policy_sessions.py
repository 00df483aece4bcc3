"""Policies on the sources of builds that a client decides by call, and what it may know of a source before."""

import contextlib
import hashlib
import json
import threading
from typing import Any

import pytest

from engine.daemon.buildkit.messages import gateway, policy, policysession
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.images.content import digest_of
from engine.errors import EngineError
from engine.protocols import grpc, protobuf
from tests.api.policed import DATA, SUM, pages, server
from tests.harness import web
from tests.harness.daemon import Daemon
from tests.harness.frontends import frontend
from tests.harness.gitserver import GitServer
from tests.harness.graphs import Writer
from tests.harness.links import LONG
from tests.harness.policing import ALLOW, DENY, build, converted, policing, policy_of, rule, source
from tests.harness.registry import Registry, architecture

__all__ = ["pages", "server"]

BUSYBOX = "docker-image://docker.io/library/busybox:latest"
HOST_NETWORK = ["network.host"]


def test_a_client_is_asked_about_an_image(daemon: Daemon, busybox: str) -> None:
    """With its platform, and before anything is known of it."""
    with policing(daemon) as client, frontend(daemon, **client.fields) as asked:
        writer = Writer()
        image = writer.add(
            {
                "source": {"identifier": BUSYBOX, "attrs": {"image.layerlimit": "1"}},
                "platform": {"OS": "linux", "Architecture": "amd64"},
            }
        )
        assert "bin" in asked.names(asked.solve(writer.definition(image)), "/")
    (question,) = client.asked
    assert question["Platform"] and question["Platform"]["OS"] == "linux"
    assert question["Source"] and question["Source"]["Source"]
    assert question["Source"]["Source"] == {"identifier": BUSYBOX, "attrs": {"image.layerlimit": "1"}}
    assert question["Source"]["Image"] is None


def test_what_a_client_denies_is_told_in_its_words(daemon: Daemon, busybox: str) -> None:
    """As a detail of the failure, from which the client draws; for graphs, frontends' questions, and Dockerfiles."""
    said = {"action": policy.DENY, "denyMessages": [{"message": "not this"}, {"message": "another"}]}
    words = f'source "{BUSYBOX}" not allowed by policy: action DENY'

    def reasons(error: EngineError) -> list[dict]:
        assert isinstance(error, grpc.Failed) and words in error.status.words, error
        details = protobuf.decode(Status, error.status.details)["details"]
        kind = "github.com/moby/buildkit/policysession.DecisionResponse+json"
        return [json.loads(each["value"]) for each in details if each["type_url"] == kind]

    with policing(daemon, lambda _: {"decision": said}) as client:  # type: ignore[typeddict-item]
        with frontend(daemon, Definition=source(BUSYBOX), **client.fields) as asked:
            pass
        (error,) = asked.ended
        assert isinstance(error, EngineError) and reasons(error) == [said]
        assert isinstance(error, grpc.Failed) and error.status.code == grpc.UNKNOWN
        with frontend(daemon, **client.fields) as asked:
            for method, message in (
                ("Solve", {"Definition": source(BUSYBOX)}),
                ("ResolveSourceMeta", {"Source": {"identifier": BUSYBOX}}),
                ("ResolveImageConfig", {"Ref": "busybox"}),
            ):
                with pytest.raises(EngineError) as caught:
                    asked(method, message)
                assert reasons(caught.value) == [said], method
            with pytest.raises(EngineError) as caught:
                build(asked, "FROM busybox")
            assert reasons(caught.value) == [said]


def test_a_client_that_does_not_decide_allows_nothing(daemon: Daemon, busybox: str) -> None:
    def fail(_asked: policysession.CheckPolicyRequest) -> policysession.CheckPolicyResponse:
        raise grpc.Failed(grpc.Status(grpc.UNKNOWN, "it is out of order"))

    for decide, words in (
        (fail, "it is out of order"),
        (lambda _: {}, "no decision in policy response"),
        (lambda _: {"decision": {"action": 9}}, "not allowed by policy: action 9"),
        (lambda _: {"decision": {"action": policy.CONVERT}}, "convert action requires updated source"),
        (lambda _: converted(BUSYBOX + "x" * 5000), "too long a name"),
        (lambda _: {"request": {"Source": {"identifier": "docker-image://other"}}}, "different source identifier"),
        (lambda _: {"request": {"Source": {"identifier": BUSYBOX, "attrs": {"a": "b"}}}}, "different source attrs"),
        (lambda _: {"request": {}}, "different source identifier"),
    ):
        with policing(daemon, decide) as client, frontend(daemon, **client.fields) as asked:  # type: ignore[arg-type]
            with pytest.raises(EngineError, match=words):
                asked.solve(source(BUSYBOX))


def test_a_client_converts_until_it_allows(daemon: Daemon, busybox: str) -> None:
    def decide(asked: policysession.CheckPolicyRequest) -> policysession.CheckPolicyResponse:
        assert asked["Source"] and asked["Source"]["Source"]
        return (
            ALLOW if "busybox" in asked["Source"]["Source"]["identifier"] else converted(BUSYBOX, image_layerlimit="1")
        )

    with policing(daemon, decide) as client, frontend(daemon, **client.fields) as asked:
        assert "bin" in asked.names(asked.solve(source("docker-image://none.example/x:1")), "/")
        assert client.sources == ["docker-image://none.example/x:1", BUSYBOX]
    with policing(daemon, lambda _: converted(BUSYBOX)) as client, frontend(daemon, **client.fields) as asked:
        with pytest.raises(EngineError, match="too many policy requests"):
            asked.solve(source(BUSYBOX))
        assert len(client.asked) == 10
    denied = policy_of(rule(policy.DENY, "https://*"))
    with policing(daemon, lambda _: converted("https://a.example/x")) as client:
        with frontend(daemon, SourcePolicy=denied, **client.fields) as asked:  # what it converts to is judged anew
            with pytest.raises(EngineError, match=r'source "https://a\.example/x" denied by policy'):
                asked.solve(source(BUSYBOX))


def test_a_client_may_know_more_of_an_image(daemon: Daemon, registry: Registry) -> None:
    """Nothing is pulled for it."""
    pushed = registry.push("policies/known:1", [b"no archive"], {"Env": ["of=the-registry"]})
    name = f"docker-image://{registry.address}/policies/known:1"

    def decide(asked: policysession.CheckPolicyRequest) -> policysession.CheckPolicyResponse:
        assert asked["Source"]
        if asked["Source"]["Image"] is None:
            return {"request": {"Source": asked["Source"]["Source"], "Platform": asked["Platform"]}}
        return DENY

    with policing(daemon, decide) as client, frontend(daemon, **client.fields) as asked:
        with pytest.raises(EngineError, match="not allowed by policy"):
            build(asked, f"FROM {registry.address}/policies/known:1")
    told = client.asked[1]["Source"]
    assert client.sources == [name, name] and told and told["Image"]
    assert told["Image"]["Digest"] == pushed.digest
    assert json.loads(told["Image"]["Config"])["config"]["Env"] == ["of=the-registry"]
    assert daemon.request("GET", f"/images/{registry.address}/policies/known:1/json").status == 404


def test_a_client_may_know_more_of_a_file_and_of_a_repository(daemon: Daemon, pages: str, server: GitServer) -> None:
    commit = server.repository("a").commit({"file": "of git\n"})
    git = f"git://{server.url('a').removeprefix('http://')}"
    more: dict[str, Any] = {"HTTP": {"ChecksumRequest": {"Algo": gateway.CHECKSUM_ALGO_SHA512, "Suffix": b"salt"}}}

    def decide(asked: policysession.CheckPolicyRequest) -> policysession.CheckPolicyResponse:
        assert asked["Source"]
        if asked["Source"]["HTTP"] is None and asked["Source"]["Git"] is None:
            return {"request": {"Source": asked["Source"]["Source"], **more}}  # type: ignore[typeddict-item]
        return ALLOW

    with policing(daemon, decide) as client, frontend(daemon, Entitlements=HOST_NETWORK, **client.fields) as asked:
        assert asked.read(asked.solve(source(f"{pages}/file")), "/file") == DATA
        assert asked.read(asked.solve(source(git, {"git.fullurl": server.url("a")})), "/file") == b"of git\n"
    told = [each["Source"] for each in client.asked]
    assert told[1] and told[1]["HTTP"] and told[3] and told[3]["Git"]
    digest = f"sha512:{hashlib.sha512(DATA + b'salt').hexdigest()}"
    assert (told[1]["HTTP"]["Checksum"], told[1]["HTTP"]["ChecksumResponse"]) == (
        SUM,
        {"Digest": digest, "Suffix": b"salt"},
    )
    assert told[3]["Git"]["Checksum"] == commit


def test_sources_of_a_graph_are_asked_about_at_once(daemon: Daemon, busybox: str) -> None:
    """The client may answer about one only when it has been asked about the other."""
    together = threading.Barrier(2, timeout=LONG)

    def decide(_asked: policysession.CheckPolicyRequest) -> policysession.CheckPolicyResponse:
        together.wait()
        return ALLOW

    writer = Writer()
    images = [writer.add({"source": {"identifier": BUSYBOX, "attrs": {"image.layerlimit": each}}}) for each in "12"]
    writer_of = writer.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, *images)
    with policing(daemon, decide) as client, frontend(daemon, **client.fields) as asked:
        assert asked.solve(writer.definition(writer_of))
        assert len(client.asked) == 2


def test_a_client_that_goes_ends_the_build_that_asks_it(daemon: Daemon, busybox: str) -> None:
    waiting, over = threading.Event(), threading.Event()

    def decide(_asked: policysession.CheckPolicyRequest) -> policysession.CheckPolicyResponse:
        waiting.set()
        over.wait(LONG)
        return ALLOW

    with contextlib.ExitStack() as stack:
        stack.callback(over.set)
        with policing(daemon, decide) as client:
            build = stack.enter_context(frontend(daemon, Definition=source(BUSYBOX), **client.fields))
            assert waiting.wait(LONG)
            over.set()
    (error,) = build.ended
    assert isinstance(error, EngineError)


def test_nothing_is_fetched_of_what_is_denied(daemon: Daemon, busybox: str, world: Any) -> None:
    asked_for: list[str] = []

    class Pages(dict):
        def get(self, path: str, default: Any = None) -> Any:
            asked_for.append(path)
            return super().get(path, default)

    with web.serving(Pages({"/a.tar": (200, {}, b"")}), world.namespaces.socket()) as url, policing(daemon) as client:
        host = url.removeprefix("http://")
        client.decide = lambda asked: DENY if host in str(asked) else ALLOW
        with frontend(daemon, Entitlements=HOST_NETWORK, **client.fields) as asked:
            for lines, options in (
                (("FROM busybox", f"ADD {url}/a.tar /"), {}),
                (("FROM busybox", "COPY --from=there context /"), {"context:there": f"{url}/a.tar"}),
                (("FROM busybox", f"ADD {url}/a.git /"), {}),
                (("FROM there",), {"context:there": f"{url}/a.git"}),
                (("FROM busybox",), {"context": f"{url}/a.tar"}),
                (("FROM busybox",), {"context": f"{url}/a.git#main"}),
                ((f"# syntax={host}/a/b", "FROM scratch"), {}),
                ((f"FROM {host}/a/b",), {}),
                (("FROM busybox", f"COPY --from={host}/a/b x /"), {}),
                (("FROM busybox", f"RUN --mount=from={host}/a/b,target=/m true"), {}),
            ):
                with pytest.raises(EngineError, match="not allowed by policy: action DENY"):
                    build(asked, *lines, **options)
            with pytest.raises(EngineError, match="not allowed by policy: action DENY"):
                asked("ResolveSourceMeta", {"Source": {"identifier": f"{url}/a.tar"}})
    assert asked_for == []


def test_what_is_attested_of_an_image_is_told(daemon: Daemon, registry: Registry) -> None:
    """The index, the attestations of the manifest, who has signed them, and those predicates that are asked for."""
    image = registry.push("policies/attested:", [b"no archive"], kind="oci")
    about = {"vnd.docker.reference.digest": image.digest, "vnd.docker.reference.type": "attestation-manifest"}
    kinds = ("https://slsa.dev/provenance/v1", "https://spdx.dev/Document")
    statements = [json.dumps({"predicateType": kind}).encode() for kind in kinds]
    empty = {"mediaType": "application/vnd.oci.image.config.v1+json", **registry.push_blob("policies/attested", b"{}")}
    oci = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": empty}

    def layers(*blobs: bytes) -> list[dict]:
        notes = [{"in-toto.io/predicate-type": json.loads(blob)["predicateType"]} for blob in blobs]
        descriptors = [registry.push_blob("policies/attested", blob) for blob in blobs]
        media = {"mediaType": "application/vnd.in-toto+json"}
        return [{**media, **each, "annotations": note} for each, note in zip(descriptors, notes, strict=True)]

    def entry(pushed: Any, **more: Any) -> dict:
        return {"mediaType": pushed.media_type, "digest": pushed.digest, "size": pushed.size, **more}

    attested = registry.push_manifest("policies/attested", "", {**oci, "layers": layers(*statements)})
    bundle = b'{"predicateType": "", "bundle": true}'
    signed = registry.push_manifest("policies/attested", "", {**oci, "layers": layers(bundle)})
    signatures = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry(signed, artifactType="application/vnd.dev.sigstore.bundle.v0.3+json")],
    }
    registry.push_manifest("policies/attested", attested.digest.replace(":", "-"), signatures)
    ours = {"architecture": architecture(), "os": "linux"}
    unknown = {"architecture": "unknown", "os": "unknown"}
    whole = {
        **signatures,
        "manifests": [entry(image, platform=ours), entry(attested, platform=unknown, annotations=about)],
    }
    index = registry.push_manifest("policies/attested", "1", whole)
    source = {"identifier": f"docker-image://{registry.address}/policies/attested:1"}
    with frontend(daemon) as asked:
        request = {"NoConfig": True, "ResolveAttestations": [kinds[0]]}
        told = asked("ResolveSourceMeta", {"Source": source, "Image": request})["Image"]
        assert (told["Digest"], told["Config"]) == (index.digest, b"")
        chain = told["AttestationChain"]
        assert (chain["Root"], chain["ImageManifest"]) == (index.digest, image.digest)
        assert (chain["AttestationManifest"], chain["SignatureManifests"]) == (attested.digest, [signed.digest])
        data = {digest: blob["data"] for digest, blob in chain["Blobs"].items()}
        digests = {index.digest, attested.digest, signed.digest}
        assert set(data) == digests | {digest_of(bundle), digest_of(statements[0])}
        assert all(digest_of(each) == digest for digest, each in data.items())
        described = chain["Blobs"][digest_of(statements[0])]["descriptor"]
        assert described["annotations"] == {"in-toto.io/predicate-type": kinds[0]}
        told = asked("ResolveSourceMeta", {"Source": source, "Image": {"AttestationChain": True}})["Image"]
        assert told["Config"] and digest_of(statements[0]) not in told["AttestationChain"]["Blobs"]
        registry.push("policies/plain:1", [b"no archive"])
        source = {"identifier": f"docker-image://{registry.address}/policies/plain:1"}
        told = asked("ResolveSourceMeta", {"Source": source, "Image": {"AttestationChain": True}})["Image"]
        assert told["Digest"] and told["AttestationChain"] is None
