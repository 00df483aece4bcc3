"""The document that says where a build's result comes from: SLSA provenance in its versions 1 and 0.2.

Pure. The form is BuildKit's (buildkit, solver/llbsolver/provenance/types/types.go; slsa.dev/spec/v1.1/provenance,
slsa.dev/spec/v0.2/provenance). With `mode=min` the values of arguments and labels, and the names of secrets, are left
out, and so is the graph of operations.
"""

import base64
from collections.abc import Mapping

from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.intoto import package_url
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.provenance import graphsteps
from engine.daemon.buildkit.provenance.captured import Captured
from engine.daemon.clock import rfc3339
from engine.daemon.images.platform import Platform, host
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.redact import redacted

V1, V02 = "https://slsa.dev/provenance/v1", "https://slsa.dev/provenance/v0.2"
"""The types of the predicate."""
MIN, MAX = "min", "max"
_VERSIONS = {"": V1, "v1": V1, "v0.2": V02}
_BUILD_TYPE = "https://github.com/moby/buildkit/blob/master/docs/attestations/slsa-definitions.md"
_OLD_BUILD_TYPE = "https://mobyproject.org/buildkit@v1"
_OF_THE_HOST = frozenset(("cgroup-parent", "image-resolve-mode", "platform", "cache-imports"))
_ATTEST, _VCS = "attest:", "vcs:"
_SECRET_VALUES = ("build-arg:", "label:")
_FILE = "provenance.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """How the document is to be. kind: its type; name: of its file where it is exported as one"""

    kind: str = V1
    mode: str = MAX
    inline_only: bool = False
    builder: str = ""
    reproducible: bool = False
    name: str = _FILE


@dataclass(frozen=True, slots=True)
class Facts:
    """What is said. frontend: its name; options: the client's for it; id: of the build

    platform: of the result; finished_ns: since the epoch
    definition: the graph of operations that made it, None where nobody knows it
    """

    frontend: str
    options: Mapping[str, str]
    id: str
    captured: Captured
    platform: Platform
    finished_ns: int
    definition: ops.Definition | None = None


def asked(attrs: Attrs) -> Asked | None:
    """What a client asks; None where it wants no such document. Raises Invalid, NotBuilt."""
    mode, version = attrs.text("mode", MAX), attrs.text("version")
    found = Asked(
        _VERSIONS.get(version, ""),
        mode,
        attrs.flag("inline-only"),
        attrs.text("builder-id"),
        attrs.flag("reproducible"),
        attrs.text("filename", _FILE),
    )
    disabled = attrs.flag("disabled")
    attrs.end()
    if mode not in (MIN, MAX):
        raise Invalid(f'invalid mode "{mode}" of the provenance: it is min or max')
    if not found.kind:
        raise Invalid(f"invalid provenance SLSA version: {version}")
    if "/" in found.name or "\0" in found.name or found.name in ("", ".", ".."):
        raise Invalid(f"invalid name of the provenance's file: {found.name}")
    return None if disabled else found


def document(wanted: Asked, facts: Facts) -> Object:
    """The predicate."""
    made = _first(wanted, facts)
    return made if wanted.kind == V1 else _older(made)


def _first(wanted: Asked, facts: Facts) -> Object:
    request, source, path, vcs = _request(facts)
    complete = True
    if wanted.mode == MIN:
        args = request.get("args", {})
        kept = {key: value for key, value in args.items() if not key.startswith(_SECRET_VALUES)}
        complete = len(kept) == len(args)
        request = {key: value for key, value in request.items() if key not in ("secrets", "ssh", "args")}
        request |= {"args": kept} if kept else {}
    config: Object = {**({"uri": source} if source else {}), **({"path": path} if path else {})}
    for used in facts.captured.files():
        if used.url == source:
            config["digest"] = _digests(used.digest)
    materials = not facts.captured.locals()
    graph, names = graphsteps.shown(facts.definition) if wanted.mode == MAX else ({}, {})
    metadata: Object = {
        "invocationId": facts.id,
        "startedOn": rfc3339(facts.captured.started_ns),
        "finishedOn": rfc3339(facts.finished_ns),
        "buildkit_metadata": _more(wanted, facts, vcs, names),
        "buildkit_completeness": {
            "request": complete and bool(facts.frontend),
            "resolvedDependencies": materials,
        },
    }
    metadata |= {"buildkit_reproducible": True} if wanted.reproducible else {}
    return {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "resolvedDependencies": _materials(facts),
            "externalParameters": {"configSource": config, "request": request},
            "internalParameters": {
                **({"buildConfig": graph} if graph else {}),
                "builderPlatform": str(host()),
                "targetPlatform": str(facts.platform),
            },
        },
        "runDetails": {"builder": {"id": wanted.builder}, "metadata": metadata},
    }


def _request(facts: Facts) -> tuple[Object, str, str, Object]:
    """The request without what is told elsewhere: URL of the context, path of the Dockerfile, facts of a repository."""
    args: Object = {}
    vcs: Object = {}
    context = facts.options.get("contextkey") or "context"
    source = path = ""
    for key, value in sorted(facts.options.items()):
        if key in _OF_THE_HOST or key.startswith(_ATTEST):
            continue
        shown = redacted(value) if key in (context, "vcs:source") or key.startswith("context:") else value
        if key.startswith(_VCS):
            vcs |= {key.removeprefix(_VCS): shown} if shown else {}
        elif key == "filename":
            path = value
        elif key == context and value:
            source = shown
        else:
            args[key] = shown
    captured = facts.captured
    request: Object = {
        **({"frontend": facts.frontend} if facts.frontend else {}),
        **({"args": args} if args else {}),
        **({"secrets": [{"id": id, "optional": True} for id in captured.secrets()]} if captured.secrets() else {}),
        **({"ssh": [{"id": id, "optional": True} for id in captured.agents()]} if captured.agents() else {}),
        **({"locals": [{"name": name} for name in captured.locals()]} if captured.locals() else {}),
    }
    return request, source, path, vcs


def _materials(facts: Facts) -> list[Object]:
    found: list[Object] = []
    for used in facts.captured.images():
        uri = package_url(used.reference, used.platform, "oci" if used.local else "docker")
        found.append({"uri": uri, **({"digest": _digests(used.digest)} if used.digest else {})})
    found += [{"uri": redacted(used.url), "digest": _digests(used.digest)} for used in facts.captured.files()]
    return found


def _digests(digest: str) -> Object:
    algorithm, _, value = digest.partition(":")
    return {algorithm: value}


def _more(wanted: Asked, facts: Facts, vcs: Object, names: Mapping[str, str]) -> Object:
    source = facts.captured.source()
    infos: Object = {}
    told = graphsteps.sources(facts.definition, names) if facts.definition is not None and names else {}
    if told:
        infos = {"source": told}
    elif source is not None and wanted.mode == MAX:
        name, text = source
        data = base64.b64encode(text).decode()
        infos = {"source": {"infos": [{"filename": name, "language": "Dockerfile", "data": data}]}}
    return {**({"vcs": vcs} if vcs else {}), **infos}


def _older(made: Object) -> Object:
    """The same facts in the form of version 0.2."""
    definition, run = made["buildDefinition"], made["runDetails"]
    external, metadata = definition["externalParameters"], run["metadata"]
    source = external["configSource"]
    config = {key: source[key] for key in ("uri", "digest") if key in source}
    config |= {"entryPoint": source["path"]} if "path" in source else {}
    return {
        "builder": run["builder"],
        "buildType": _OLD_BUILD_TYPE,
        "materials": definition["resolvedDependencies"],
        "invocation": {
            "configSource": config,
            "parameters": external["request"],
            "environment": {"platform": definition["internalParameters"]["builderPlatform"]},
        },
        **{key: value for key, value in definition["internalParameters"].items() if key == "buildConfig"},
        "metadata": {
            "buildInvocationID": metadata["invocationId"],
            "buildStartedOn": metadata["startedOn"],
            "buildFinishedOn": metadata["finishedOn"],
            "completeness": {
                "parameters": metadata["buildkit_completeness"]["request"],
                "environment": True,
                "materials": metadata["buildkit_completeness"]["resolvedDependencies"],
            },
            "reproducible": metadata.get("buildkit_reproducible", False),
            "https://mobyproject.org/buildkit@v1#metadata": metadata["buildkit_metadata"],
        },
    }
