"""The client's verbs about images: `engine pull`, `engine images` and `engine image-from-host`.

Runs in the client's one thread.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from engine.client import hostimage, progress
from engine.client.api import Api
from engine.client.display import age, columns, short_id, size
from engine.client.terminal import size as terminal_size
from engine.client.transport import Object
from engine.commandline import Given, Option, given_text

IMAGES_OPTIONS = (
    Option("all", "Show images without a name too", short="a", kind="flag", default=False),
    Option("no-trunc", "Show ids in full", kind="flag", default=False),
    Option("quiet", "Show only the ids", short="q", kind="flag", default=False),
)
PULL_OPTIONS = (
    Option("platform", "Platform to choose, such as linux/arm64"),
    Option("quiet", "Show no progress", short="q", kind="flag", default=False),
)


def split_reference(reference: str) -> tuple[str, str]:
    """A reference as (name, tag or digest), with the tag `latest` where it has neither; a port is not
    taken for a tag.
    """
    name, separator, digest = reference.partition("@")
    if separator:
        return name, digest
    head, separator, tag = reference.rpartition(":")
    return (head, tag) if separator and "/" not in tag else (reference, "latest")


def pull(api: Api, reference: str, out: TextIO, platform: str = "", quiet: bool = False) -> None:
    """Pull an image, and show the progress on `out`. Raises ApiError."""
    name, tag = split_reference(reference)
    documents = api.progress("/images/create", {"fromImage": name, "tag": tag, "platform": platform or None})
    if quiet:
        for _ in documents:
            continue
        return
    width = terminal_size(out.fileno()) if out.isatty() else None
    progress.show(documents, out, width[1] if width else None)


def pull_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine pull IMAGE`: pull an image from its registry."""
    (reference,) = others
    pull(api, reference, sys.stdout, given_text(given, "platform"), bool(given.get("quiet")))
    if given.get("quiet"):
        print(reference)
    return 0


def images_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine images [NAME]`: show a table of the images, or their ids."""
    filters = json.dumps({"reference": list(others)}) if others else None
    found = api.call("GET", "/images/json", {"all": bool(given.get("all")), "filters": filters})
    rows = [row for image in found for row in image_rows(image, bool(given.get("no-trunc")), time.time())]
    if given.get("quiet"):
        for identity in dict.fromkeys(row[2] for row in rows):
            print(identity)
    else:
        print(columns(("REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE"), rows))
    return 0


def image_rows(image: Object, full: bool, now: float) -> list[tuple[str, ...]]:
    """The rows of `images` for one image of GET /images/json: one for each of its names."""
    names = [split_reference(name) for name in image.get("RepoTags") or ()]
    if not names:
        names = [(name.partition("@")[0], "<none>") for name in image.get("RepoDigests") or ["<none>"]]
    identity = image["Id"] if full else short_id(image["Id"])
    created = f"{age(now - image['Created'])} ago"
    return [(name, tag, identity, created, size(image["Size"])) for name, tag in names]


def host_image_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine image-from-host NAME PROGRAM...`: import an image of these programs of the host."""
    name, *programs = others
    repository, tag = split_reference(name)
    query = {"fromSrc": "-", "repo": repository, "tag": tag}
    progress.show(api.progress("/images/create", query, hostimage.rootfs(programs)), sys.stdout, None)
    return 0
