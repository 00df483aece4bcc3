"""What a frontend has made of a request, as promises; and the same as messages, and as what exporters take.

Pure, but for the making of trees that were promised.
"""

import datetime
import json
from collections.abc import Mapping, Sequence

from engine.daemon.build.graph.snapshot import Snapshot
from engine.daemon.buildkit.llb.references import Reference, References
from engine.daemon.buildkit.messages import gateway
from engine.daemon.buildkit.outcome import Brought, Outcome, Tree
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field, replace
from engine.errors import Invalid

CONFIG, PLATFORMS = "containerimage.config", "refs.platforms"
"""Names in a result's metadata: the document of an image (with `/PLATFORM` for one of several), and the platforms."""
_MOST_PLATFORMS = 100
_MOST_ATTESTATIONS, _MOST_SUBJECTS = 100, 1000
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMMENT = "buildkit.exporter.image.v0"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a frontend has made. one: the tree, None for no files; several: those of platforms, by their names

    metadata: what the frontend says about it; attestations: what it attests of each tree, by the platforms' names
    """

    one: Reference | None = None
    several: Mapping[str, Reference] = field(default_factory=dict)
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    attestations: Mapping[str, Sequence["Attested"]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attested:
    """An attestation: as a message, but for its tree, of which there is a promise."""

    files: Reference
    message: gateway.Attestation


def told(answer: Answer, references: References, asked: gateway.SolveRequest) -> gateway.SolveResponse:
    """The message of an answer, whose trees get ids among these references. Raises Invalid for an old client."""
    result: gateway.Result = {"metadata": dict(answer.metadata)}
    if answer.attestations:
        result["attestations"] = {
            name: {"attestation": [{**each.message, "ref": _ref(each.files, references)} for each in said]}
            for name, said in answer.attestations.items()
        }
    if answer.several:
        if not asked["allowResultReturn"]:
            raise Invalid("solve did not return default result")
        refs = {name: _ref(each, references) for name, each in answer.several.items()}
        if asked["allowResultArrayRef"]:
            result["refs"] = {"refs": refs}
        else:
            result["refsDeprecated"] = {"refs": {name: each["id"] for name, each in refs.items()}}
        return {"result": result}
    ref: gateway.Ref = _ref(answer.one, references) if answer.one is not None else {"id": ""}
    if asked["allowResultArrayRef"]:
        result["ref"] = ref
    else:
        result["refDeprecated"] = ref["id"]
    return {"result": result, "ref": "" if asked["allowResultReturn"] else ref["id"]}


def _ref(reference: Reference, references: References) -> gateway.Ref:
    return {"id": references.add(reference), "ops": reference.definition}


def read(result: gateway.Result, references: References) -> Answer:
    """The answer that a message of a frontend is, whose ids are among these references. Raises NotFound, Invalid."""
    metadata = result["metadata"]
    said = _attested(result["attestations"], references)
    if result["refs"] is not None:
        named = {name: ref["id"] for name, ref in result["refs"]["refs"].items()}
    elif result["refsDeprecated"] is not None:
        named = dict(result["refsDeprecated"]["refs"])
    else:
        id = result["ref"]["id"] if result["ref"] is not None else result["refDeprecated"]
        return Answer(references.find(id) if id else None, {}, metadata, said)
    if len(named) > _MOST_PLATFORMS:
        raise Invalid(f"a result for more than {_MOST_PLATFORMS} platforms")
    return Answer(None, {name: references.find(id) for name, id in named.items() if id}, metadata, said)


def _attested(given: Mapping[str, gateway.Attestations], references: References) -> dict[str, tuple[Attested, ...]]:
    if sum(len(each["attestation"]) for each in given.values()) > _MOST_ATTESTATIONS:
        raise Invalid(f"a result with more than {_MOST_ATTESTATIONS} attestations")
    return {
        name: tuple(_one_attested(message, references) for message in each["attestation"])
        for name, each in given.items()
    }


def _one_attested(message: gateway.Attestation, references: References) -> Attested:
    if message["kind"] not in (gateway.InToto, gateway.Bundle):
        raise Invalid(f"unknown attestation kind {message['kind']}")
    if message["ref"] is None or not message["ref"]["id"]:
        raise Invalid("attestation does not have available content")
    if len(message["inTotoSubjects"]) > _MOST_SUBJECTS:
        raise Invalid(f"an attestation about more than {_MOST_SUBJECTS} subjects")
    for subject in message["inTotoSubjects"]:
        if subject["kind"] not in (gateway.Self, gateway.Raw):
            raise Invalid(f"unknown attestation subject type {subject['kind']}")
    return Attested(references.find(message["ref"]["id"]), message)


def outcome(answer: Answer) -> Outcome | None:
    """What exporters take: all trees, made now; None for an answer without files. Raises EngineErrors."""
    metadata = dict(answer.metadata)
    if answer.several:
        order = [name for name in _order(metadata) if name in answer.several]
        if not order and len(answer.several) > 1:
            raise Invalid("unable to export multiple refs, missing platforms mapping")
        chosen = order or list(answer.several)
        _check_names(answer, chosen)
        trees = tuple(
            _brought(_complete(answer.several[name].tree(), _config(metadata, name)), answer, name) for name in chosen
        )
        return Outcome(trees, metadata, indexed=True)
    if answer.one is None:
        return None
    tree = _complete(answer.one.tree(), _config(metadata, ""))
    if answer.attestations:
        named = _order(metadata) or [str(tree.platform)]
        _check_names(answer, named[:1])
        tree = _brought(tree, answer, named[0])
    return Outcome((tree,), metadata)


def _check_names(answer: Answer, known: Sequence[str]) -> None:
    for name in answer.attestations:
        if name not in known:
            raise Invalid(f"attestations of {name[:100]}, which the result does not have")


def _brought(tree: Tree, answer: Answer, name: str) -> Tree:
    """The tree with what its frontend attests of it, whose trees are made now. Raises EngineErrors."""
    said = answer.attestations.get(name)
    return tree if not said else replace(tree, brought=tuple(map(_read, said)))


def _read(said: Attested) -> Brought:
    message = said.message
    return Brought(
        Snapshot(said.files.tree().parts),
        message["path"],
        message["kind"] == gateway.Bundle,
        message["inTotoPredicateType"],
        message["metadata"],
        tuple((each["name"], each["digest"], each["kind"] == gateway.Self) for each in message["inTotoSubjects"]),
    )


def _order(metadata: Mapping[str, bytes]) -> list[str]:
    """The names of a result's platforms, in the order in which the frontend tells them."""
    if PLATFORMS not in metadata:
        return []
    found = documents.load(metadata[PLATFORMS], PLATFORMS).get("Platforms")
    if not isinstance(found, list) or len(found) > _MOST_PLATFORMS:
        raise Invalid(f"invalid {PLATFORMS}")
    return [str(each.get("ID")) for each in found if isinstance(each, dict)]


def _config(metadata: Mapping[str, bytes], name: str) -> bytes | None:
    own = metadata.get(f"{CONFIG}/{name}") if name else None
    return own if own is not None else metadata.get(CONFIG)


def _complete(tree: Tree, config: bytes | None) -> Tree:
    """The tree with the document of its image, as a frontend gives it. Raises Invalid."""
    if tree.config and (config is None or config == documents.dump(tree.config)):
        return tree
    given = documents.load(config, CONFIG) if config else {"config": {"Env": [_PATH]}}
    diff_ids = [part.layer.diff_id for part in tree.parts]
    document = {
        **given,
        "architecture": given.get("architecture") or tree.platform.architecture,
        "os": given.get("os") or tree.platform.os,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": _history(given, len(diff_ids)),
    }
    checked = documents.config_of(json.dumps(document).encode(), len(diff_ids))
    return replace(tree, platform=platforms.of(checked), config=checked, image=None)


def _history(given: Object, layers: int) -> list[Object]:
    """The steps that the frontend tells, so that as many have a layer as there are layers."""
    found = given.get("history")
    told = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    kept: list[Object] = []
    left = layers
    for each in told:
        empty = bool(each.get("empty_layer")) or not left
        kept.append({**each, "empty_layer": True} if empty else each)
        left -= 0 if empty else 1
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return [*kept, *({"created": now, "comment": _COMMENT} for _ in range(left))]
