"""Policies on the sources of builds that a client or a frontend sends."""

import json

import pytest

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.messages import content, policy
from engine.daemon.buildkit.serving import Call, Method
from engine.daemon.images.content import digest_of
from engine.daemon.images.image import OCI_CONFIG, OCI_MANIFEST
from engine.errors import EngineError
from tests.api.policed import DATA, SUM, pages, server
from tests.harness.daemon import Daemon
from tests.harness.frontends import Frontend, frontend
from tests.harness.gitserver import GitServer
from tests.harness.policing import build, directory, policing, policy_of, rule, source
from tests.harness.registry import architecture

__all__ = ["pages", "server"]

BUSYBOX = "docker-image://docker.io/library/busybox:latest"
HOST_NETWORK = ["network.host"]
NAMED = {"there": "web", "named": "git"}


def test_a_policy_holds_for_graphs(daemon: Daemon, busybox: str, pages: str) -> None:
    """Of a client's own frontend, of the client itself, and within other graphs."""
    rules = (
        rule(
            policy.CONVERT, r"^docker-image://none\.example/(.*)$", "docker-image://docker.io/library/$1", policy.REGEX
        ),
        rule(policy.CONVERT, "https://none.example/*", f"{pages}/$1", http_checksum=SUM),
        rule(policy.DENY, f"{pages}/other"),
    )
    with frontend(daemon, SourcePolicy=policy_of(*rules), Entitlements=HOST_NETWORK) as asked:
        assert "bin" in asked.names(asked.solve(source("docker-image://none.example/busybox:latest")), "/")
        assert asked.read(asked.solve(source("https://none.example/file")), "/file") == DATA
        with pytest.raises(EngineError, match=f'error evaluating the source policy: source "{pages}/other" denied'):
            asked.solve(source("https://none.example/other"))
    denied = policy_of(rule(policy.DENY, BUSYBOX))
    with frontend(daemon, SourcePolicy=denied, Definition=source(BUSYBOX)) as asked:
        pass
    assert "denied by policy: source denied by policy" in str(asked.ended[0])


def test_a_frontend_has_policies_of_its_own(daemon: Daemon, busybox: str) -> None:
    """They hold for one call, beside those of the client."""
    moved = policy_of(rule(policy.CONVERT, "docker-image://none.example/*", BUSYBOX))
    denied = policy_of(rule(policy.DENY, "*"))
    none = "docker-image://none.example/x:1"
    with frontend(daemon) as asked:
        assert "bin" in asked.names(asked.solve(source(none), SourcePolicies=[moved]), "/")
        with pytest.raises(EngineError, match="denied by policy"):
            asked.solve(source(none), SourcePolicies=[moved, denied])
        found = asked("ResolveSourceMeta", {"Source": {"identifier": none}, "SourcePolicies": [moved]})
        assert found["Source"]["identifier"] == BUSYBOX and found["Image"]["Config"]
        found = asked("ResolveImageConfig", {"Ref": "none.example/x:1", "SourcePolicies": [moved]})
        assert found["Ref"] == BUSYBOX.removeprefix("docker-image://") and found["Config"]
        file = policy_of(rule(policy.CONVERT, none, "local://x"))
        with pytest.raises(EngineError, match=r"ref mutated by policy to non-image: .* -> local://x"):
            asked("ResolveImageConfig", {"Ref": "none.example/x:1", "SourcePolicies": [file]})
        assert asked.solve(source(BUSYBOX))
    with frontend(daemon, SourcePolicy=denied) as asked, pytest.raises(EngineError, match="denied by policy"):
        asked.solve(source(none), SourcePolicies=[moved])


def test_a_repository_is_fetched_from_where_its_name_says(daemon: Daemon, server: GitServer) -> None:
    """Else a policy would judge one place, and another one be asked. As BuildKit says it."""
    server.repository("a").commit({"file": "of a\n"})
    server.repository("b").commit({"file": "of b\n"})
    host = server.url("a").removeprefix("http://").removesuffix("/a.git")
    with frontend(daemon) as asked, pytest.raises(EngineError, match=r"git\.fullurl does not match source identifier"):
        asked.solve(source("git://allowed.example/a.git", {"git.fullurl": server.url("a")}))
    alone = policy_of(rule(policy.CONVERT, f"git://{host}/a.git*", f"git://{host}/b.git$1"))
    whole = policy_of(
        rule(policy.CONVERT, f"git://{host}/a.git*", f"git://{host}/b.git$1", git_fullurl=server.url("b"))
    )
    one = source(f"git://{host}/a.git#main", {"git.fullurl": server.url("a")})
    with frontend(daemon, SourcePolicy=alone) as asked, pytest.raises(EngineError, match="does not match"):
        asked.solve(one)
    with frontend(daemon, SourcePolicy=whole) as asked:
        assert asked.read(asked.solve(one), "/file") == b"of b\n"
    cleaned = policy_of(rule(policy.DENY, f"git://{host}/a.git#main:sub/dir", kind=policy.EXACT))
    with frontend(daemon, SourcePolicy=cleaned) as asked, pytest.raises(EngineError, match="denied by policy"):
        asked.solve(source(f"git://{host}/a.git#main:../sub/./dir", {"git.fullurl": server.url("a")}))


def test_what_a_dockerfile_names_becomes_something_else(
    daemon: Daemon, busybox: str, pages: str, server: GitServer
) -> None:
    server.repository("a").commit({"file": "of git\n", "sub/below": "below\n"})
    git = server.url("a").removeprefix("http://")
    rules = (
        rule(policy.CONVERT, "docker-image://none.example/web:1", f"{pages}/file"),
        rule(policy.CONVERT, "docker-image://none.example/git:1", f"git://{git}", git_fullurl=server.url("a")),
        rule(policy.CONVERT, "docker-image://none.example/limited:1", BUSYBOX, image_layerlimit="1"),
        rule(policy.CONVERT, "https://none.example/file", f"{pages}/other"),
        rule(policy.CONVERT, "https://none.example/owned", f"{pages}/file", http_perm="0640", http_uid="7"),
        rule(policy.CONVERT, "git://none.example/r.git", f"git://{git}#main:sub", git_fullurl=server.url("a")),
        rule(policy.CONVERT, "git://none.example/web.git", f"{pages}/file"),
    )
    lines = (
        "FROM none.example/limited:1",
        "COPY --from=none.example/git:1 file /of-git",
        "COPY --from=there context /of-web",
        "COPY --from=named file /of-named",
        "ADD https://none.example/file file /both/",
        "ADD https://none.example/owned https://none.example/file /parts/",
        "ADD https://none.example/r.git /repository",
        "ADD https://none.example/web.git /web",
        "RUN stat -c '%a %u' /parts/owned > /mode",
    )
    contexts = {f"context:{name}": f"docker-image://none.example/{kind}:1" for name, kind in NAMED.items()}
    fields = {"SourcePolicy": policy_of(*rules), "Entitlements": HOST_NETWORK}
    with policing(daemon) as client, frontend(daemon, Session=client.id, **fields) as asked:
        ref = build(asked, *lines, **contexts)
        expected = {
            "/of-git": b"of git\n",
            "/of-web": DATA,
            "/of-named": b"of git\n",
            "/both/file": b"of the context\n",  # which comes later under the same name
            "/parts/owned": DATA,
            "/parts/file": b"another\n",
            "/repository/below": b"below\n",
            "/web/file": DATA,
            "/mode": b"640 7\n",
        }
        assert {path: asked.read(ref, path) for path in expected} == expected
        with pytest.raises(EngineError, match=r"http\.header\.x"):
            asked.solve(source("https://none.example/file", {"http.header.x": "1"}))


def test_an_image_becomes_one_of_a_content_store(daemon: Daemon) -> None:
    """Of the client's session, with its document; also where its name is that of a context."""
    config = {"os": "linux", "architecture": architecture(), "rootfs": {"type": "layers", "diff_ids": []}}
    document = json.dumps({**config, "config": {"Env": ["of=the-layout"]}}).encode()
    part = {"mediaType": OCI_CONFIG, "digest": digest_of(document), "size": len(document)}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": part, "layers": []}).encode()
    blobs = {digest_of(data): data for data in (document, manifest)}

    def read(call: Call[content.ReadContentRequest, content.ReadContentResponse]) -> None:
        call.send({"data": blobs[call.one()["digest"]]})

    laid = f"oci-layout://x/y@{digest_of(manifest)}"
    rules = policy_of(
        rule(policy.CONVERT, "docker-image://none.example/laid:1", laid, oci_store="s"),
        rule(policy.DENY, f"oci-layout://docker.io/library/base@{digest_of(manifest)}"),
    )
    served = {methods.CONTENT + "Read": Method(content.ReadContentRequest, content.ReadContentResponse, read)}
    options = {"context:named": "docker-image://none.example/laid:1", "context:base": laid}
    with policing(daemon, more=served) as client:
        with frontend(daemon, SourcePolicy=rules, **client.fields) as asked:
            for base in ("none.example/laid:1", "named"):
                text = directory(Dockerfile=f"FROM {base}\n")
                inputs = {"context": text, "dockerfile": text}
                request = {"Frontend": "dockerfile.v0", "FrontendOpt": options, "FrontendInputs": inputs}
                found = asked("Solve", {**request, "allowResultReturn": True, "allowResultArrayRef": True})["result"]
                made = json.loads(found["metadata"]["containerimage.config"])
                assert made["config"]["Env"][0] == "of=the-layout"
            with pytest.raises(EngineError, match="denied by policy"):
                build(asked, "FROM base", **options)
        assert {laid} == set(client.sources)


def test_what_a_build_is_of_becomes_something_else(daemon: Daemon, busybox: str, pages: str, server: GitServer) -> None:
    text = "FROM scratch\nCOPY . /\n"
    server.repository("a").commit(
        {"Dockerfile": text, "file": "of git\n", "sub/file": "below\n", "sub/Dockerfile": text}
    )
    git = server.url("a").removeprefix("http://")
    to_git = {"git_fullurl": server.url("a")}
    rules = (
        rule(policy.CONVERT, "local://context", f"git://{git}", **to_git),
        rule(policy.CONVERT, "local://dockerfile", f"git://{git}", **to_git),
        rule(policy.CONVERT, "local://mine", f"git://{git}", **to_git),
        rule(policy.CONVERT, "git://none.example/r.git", f"git://{git}", **to_git),
        rule(policy.CONVERT, "https://none.example/x", f"{pages}/dockerfile"),
        rule(policy.CONVERT, "https://none.example/pinned", f"{pages}/dockerfile", http_checksum=SUM),
    )

    def made(asked: Frontend, **options: str) -> str:
        request = {"Frontend": "dockerfile.v0", "FrontendOpt": options, "allowResultReturn": True}
        found = asked("Solve", {**request, "allowResultArrayRef": True})["result"]["ref"]
        return found["id"] if found else ""

    with policing(daemon) as client:
        fields = {**client.fields, "SourcePolicy": policy_of(*rules), "Entitlements": HOST_NETWORK}
        with frontend(daemon, **fields) as asked:
            assert asked.read(made(asked), "/file") == b"of git\n"
            assert asked.read(made(asked, context="https://none.example/r.git"), "/file") == b"of git\n"
            below = made(asked, context="https://none.example/r.git", contextsubdir="sub")
            assert asked.read(below, "/file") == b"below\n"
            made(asked, context="https://none.example/x")
            own = {"dockerfilekey": "mine", "context": "https://none.example/r.git"}
            assert "sub" in asked.names(made(asked, **own), "/")
            with pytest.raises(EngineError, match="digest mismatch"):
                made(asked, context="https://none.example/pinned")
    assert {f"git://{git}", f"{pages}/dockerfile"} == set(client.sources)
