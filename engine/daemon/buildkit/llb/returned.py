"""What a frontend has made of a request, as promises; and the same as messages, and as what exporters take.

Pure, but for the making of trees that were promised.
"""

import datetime
import json
from collections.abc import Container, Mapping, Sequence

from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.buildkit.llb.references import Reference, References
from engine.daemon.buildkit.messages import gateway
from engine.daemon.buildkit.outcome import Brought, Outcome, Tree
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
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
    """What a frontend has made. one: the tree, None for no files; several: those of platforms, by their ids

    metadata: what the frontend says about it; attestations: what it attests of each tree, by the platforms' names
    """

    one: Reference | None = None
    several: Mapping[str, Reference | None] = field(default_factory=dict)
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
    ref = _ref(answer.one, references)
    if asked["allowResultArrayRef"]:
        result["ref"] = ref
    else:
        result["refDeprecated"] = ref["id"]
    return {"result": result, "ref": "" if asked["allowResultReturn"] else ref["id"]}


def _ref(reference: Reference | None, references: References) -> gateway.Ref:
    return {"id": ""} if reference is None else {"id": references.add(reference), "ops": reference.definition}


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
    several = {name: references.find(id) if id else None for name, id in named.items()}
    return Answer(None, several, metadata, said)


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


def outcome(answer: Answer) -> Outcome:
    """What exporters take: all trees, made now, and an empty one for no files. Raises EngineErrors."""
    metadata = dict(answer.metadata)
    named = _platforms(metadata)
    if not answer.several:
        if len(named) > 1:
            raise Invalid("cannot export multiple platforms without multi-platform enabled")
        tree = _complete(answer.one, _config(metadata, ""), next(iter(named.items()), None))
        _check_names(answer, [tree.platform_id])
        return Outcome((_brought(tree, answer),), metadata)
    if not named:
        raise Invalid("build result contains multiple refs without platforms mapping")
    for id in named:
        if id not in answer.several:
            raise Invalid(f"failed to find ref for ID {id[:100]}")
    _check_names(answer, named)
    trees = [_complete(answer.several[each[0]], _config(metadata, each[0]), each) for each in named.items()]
    return Outcome(tuple(_brought(tree, answer) for tree in trees), metadata, indexed=True)


def _check_names(answer: Answer, known: Container[str]) -> None:
    for name in answer.attestations:
        if name not in known:
            raise Invalid(f"attestations of {name[:100]}, which the result does not have")


def _brought(tree: Tree, answer: Answer) -> Tree:
    """The tree with what its frontend attests of it, whose trees are made now. Raises EngineErrors."""
    said = answer.attestations.get(tree.platform_id)
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


def _platforms(metadata: Mapping[str, bytes]) -> dict[str, Platform]:
    """A result's platforms by their ids, in the order in which the frontend tells them. Raises Invalid."""
    if PLATFORMS not in metadata:
        return {}
    found = documents.load(metadata[PLATFORMS], PLATFORMS).get("Platforms")
    if not isinstance(found, list) or not 0 < len(found) <= _MOST_PLATFORMS:
        raise Invalid("invalid empty platforms index for exporter" if not found else f"invalid {PLATFORMS}")
    return dict(map(_platform, found))


def _platform(entry: object) -> tuple[str, Platform]:
    """One entry of that list: an id, and the platform that it stands for."""
    id, said = (entry.get("ID"), entry.get("Platform")) if isinstance(entry, dict) else (None, None)
    if not isinstance(id, str) or not id or "\0" in id:
        raise Invalid("invalid empty platform key for exporter")
    if not isinstance(said, dict) or not said.get("os") or not said.get("architecture"):
        raise Invalid(f"invalid platform value {str(said)[:100]} for exporter")
    return id, platforms.of(said)


def _config(metadata: Mapping[str, bytes], name: str) -> bytes | None:
    own = metadata.get(f"{CONFIG}/{name}") if name else None
    return own if own is not None else metadata.get(CONFIG)


def _complete(made: Reference | None, config: bytes | None, named: tuple[str, Platform] | None) -> Tree:
    """The tree, made now, with the document of its image as a frontend gives it. Raises EngineErrors.

    made: the promise of it, None for no files; named: the platform's id and the platform, where these are told
    """
    tree = made.tree() if made is not None else Tree(platforms.host(), (), {})
    if named is not None:
        tree = replace(tree, id=named[0])
    return _configured(tree, config, named[1] if named is not None else None)


def described(outcome: Outcome, configs: Mapping[str, str]) -> Outcome:
    """The result whose images have these documents, by their names in its metadata, in place of others."""
    if not configs:
        return outcome
    metadata = outcome.metadata | {name: text.encode() for name, text in configs.items()}
    trees = []
    for tree in outcome.trees:
        config = _config(metadata, tree.platform_id)
        trees.append(_configured(tree, config, tree.platform if outcome.several else None))
    return replace(outcome, trees=tuple(trees), metadata=metadata)


def _configured(tree: Tree, config: bytes | None, platform: Platform | None) -> Tree:
    """The tree with that document. platform: which it is for, where that is told. Raises Invalid."""
    if tree.config and (config is None or config == documents.dump(tree.config)):
        return tree
    default = platform or tree.platform
    given = documents.load(config, CONFIG) if config else {"config": {"Env": [_PATH], "WorkingDir": "/"}}
    diff_ids = [part.layer.diff_id for part in tree.parts]
    document = {
        **given,
        "architecture": given.get("architecture") or default.architecture,
        "os": given.get("os") or default.os,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": _history(given, len(diff_ids)),
    }
    checked = documents.config_of(json.dumps(document).encode(), len(diff_ids))
    return replace(tree, platform=platform or platforms.of(checked), config=checked, image=None)


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
