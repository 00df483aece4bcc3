"""Reading images from docker's oldest archive format (before 1.10): `repositories`, and a directory for each layer.

Pure but for the archive's files, which it asks for by name. In this format each layer is an image with its own JSON,
which names its parent. The JSON of the uppermost layer holds the config. What a config has besides today (the layers'
digests, a history) is made here, in the way dockerd did it.
"""

from collections.abc import Iterator

from engine.daemon.images import image as documents
from engine.daemon.images.archives.members import Bundle
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.errors import Invalid

# Fields of the old JSON that have no meaning in a config of today.
_DROPPED = ("id", "parent", "parent_id", "layer_id", "throwaway", "Size", "Tag")
_MOST_NAMES = 1_000


def images(members: Bundle, repositories: bytes) -> Iterator[tuple[bytes, list[tuple[str, int]], list[Reference]]]:
    """(config, (digest, size) of each layer, names) of each image; its layers lowest first. Raises Invalid.

    repositories: the contents of the archive's file of that name
    """
    for identity, names in _names(documents.load(repositories, "repositories")).items():
        chain = _chain(members, identity)
        files, diff_ids = [], []
        for one, _ in chain:
            file = members.find(f"{one}/layer.tar")
            if file is None:
                raise Invalid(f"invalid archive: '{one}/layer.tar' is missing")
            files.append(file)
            diff_ids.append(members.layer_of(file[0]).diff_id)
        yield _config(chain, diff_ids), files, names


def _names(repositories: Object) -> dict[str, list[Reference]]:
    """id of an uppermost layer → the names of its image. Raises Invalid."""
    found: dict[str, list[Reference]] = {}
    for name, tags in repositories.items():
        for tag, identity in tags.items() if isinstance(tags, dict) else [("", None)]:
            if not isinstance(identity, str):
                raise Invalid("invalid repositories: names, tags and ids are expected")
            reference = Reference.parse(name).with_tag(tag)
            if reference.digest:
                raise Invalid(f'invalid tag "{reference.familiar}"')
            found.setdefault(identity, []).append(reference)
    if sum(len(names) for names in found.values()) > _MOST_NAMES:
        raise Invalid(f"invalid archive: more than {_MOST_NAMES} images")
    return found


def _chain(members: Bundle, identity: str) -> list[tuple[str, Object]]:
    """(id, JSON document) of a layer and of all its ancestors, lowest first. Raises Invalid."""
    chain: list[tuple[str, Object]] = []
    while identity:
        if len(chain) == documents.MOST_LAYERS:  # parents that form a circle end here too
            raise Invalid(f"max depth exceeded: more than {documents.MOST_LAYERS} layers")
        data = members.document(f"{identity}/json")
        if data is None:
            raise Invalid(f"invalid archive: '{identity}/json' is missing")
        document = documents.load(data, "image JSON")
        chain.append((identity, document))
        identity = document.get("parent") or ""
        if not isinstance(identity, str):
            raise Invalid("invalid image JSON: the parent is not an image id")
    return chain[::-1]


def _config(chain: list[tuple[str, Object]], diff_ids: list[str]) -> bytes:
    _, uppermost = chain[-1]
    config = {key: value for key, value in uppermost.items() if key not in _DROPPED}
    config["rootfs"] = {"type": "layers", "diff_ids": diff_ids}
    config["history"] = [_step(document) for _, document in chain]
    return documents.dump(config)


def _step(document: Object) -> Object:
    made_by = (document.get("container_config") or {}) if isinstance(document.get("container_config"), dict) else {}
    step = {
        "created": document.get("created"),
        "author": document.get("author"),
        "created_by": _shown(made_by.get("Cmd")),
        "comment": document.get("comment"),
    }
    return {key: value for key, value in step.items() if isinstance(value, str) and value}


def _shown(command: object) -> str | None:
    """The words of a command, joined by blanks; None for anything but a list of strings."""
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return " ".join(command)
    return None
