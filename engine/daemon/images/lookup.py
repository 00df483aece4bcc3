"""Finding an image in the database by a name or (short) id, and making `Image` values from its rows.

Runs in the daemon, on any thread, within a reading or transaction of `Database`; each function takes its connection
first. It changes nothing. `images.catalogue` caches what was found.
"""

import re
import sqlite3

from engine.daemon.images import platform
from engine.daemon.images.image import Image, load
from engine.daemon.images.reference import Reference
from engine.daemon.store import images as table
from engine.errors import Invalid, NotFound
from engine.regex import regex

_SHORT_ID = regex(r"(?:sha256:)?([a-f0-9]{4,64})")


def identity(connection: sqlite3.Connection, ref: str) -> str:
    """The id of the image called `ref`: name, name:tag, name@digest, id, or a short id that no other image shares.

    Raises NotFound in docker's words, Invalid.
    """
    found = _by_name(connection, ref) or _by_id(connection, ref)
    if found is None:
        raise NotFound(f"No such image: {_shown(ref)}")
    return found


def _by_name(connection: sqlite3.Connection, ref: str) -> str | None:
    if not ref or ref.startswith("sha256:") or re.fullmatch(r"[a-f0-9]{64}", ref):
        return None
    reference = Reference.parse(ref).with_default_tag()
    if not reference.digest:
        return table.image_by_name(connection, reference.canonical)
    # A digest decides, and a tag beside it is ignored; but the image must have a name of that repository.
    if table.image(connection, reference.digest) is None:
        return None
    names = (Reference.parse(name) for name, _ in table.image_names(connection, reference.digest))
    return reference.digest if any(name.name == reference.name for name in names) else None


def _by_id(connection: sqlite3.Connection, ref: str) -> str | None:
    match = _SHORT_ID.fullmatch(ref)
    if not match:
        return None
    found = table.images_by_prefix(connection, f"sha256:{match[1]}")
    if len(found) > 1:
        raise Invalid(f"ambiguous reference: more than one image starts with {ref}")
    return found[0] if found else None


def _shown(ref: str) -> str:
    """The reference in the form in which docker shows it when there is no such image."""
    try:
        return Reference.parse(ref).with_default_tag().familiar
    except Invalid:
        return ref


def platforms(connection: sqlite3.Connection, row: sqlite3.Row, kept: int = table.SHOWN) -> list[Image]:
    """The image of a row as each of its platforms that are kept for this one, the best one for the host first."""
    names = table.image_names(connection, row["id"])
    references = [Reference.parse(name) for name, _ in names]
    digests = dict.fromkeys(f"{reference.familiar_name}@{row['id']}" for reference in references)
    images = []
    for one in table.platforms(connection, row["id"], kept):
        layers = table.image_layers(connection, row["id"], one["manifest"])
        blobs = table.image_blobs(connection, row["id"], one["manifest"])
        image = Image(
            id=row["id"],
            descriptor={"mediaType": row["media_type"], "digest": row["id"], "size": row["descriptor_size"]},
            manifest=one["manifest"],
            config=load(one["config"].encode(), "image config"),
            layers=tuple(str(layer["number"]) for layer in layers),
            layer_sizes=tuple(layer["size"] for layer in layers),
            content_size=sum(size for _, size in blobs),
            created=one["created"],
            parent=row["parent"],
            names=tuple(name for name, _ in names),
            repo_tags=tuple(reference.familiar for reference in references if reference.tag),
            repo_digests=tuple(digests),
            tagged_ns=max((tagged for _, tagged in names), default=0),
            hidden=kept == table.FOR_BUILDS,
        )
        images.append(image)
    return platform.sorted_for(platform.host(), images)
