"""The verbs `engine pull`, `engine push` and `engine image-from-host`: images from and to elsewhere.

Runs in the client's one thread.
"""

import os
import sys
from collections.abc import Sequence

from engine.annotating import Any
from engine.client import progress
from engine.client.api import Api, Query, image_path
from engine.client.image.imagenames import platform_of, split_reference
from engine.client.terminal import size as terminal_size
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # each is of one verb alone
    from typing import TextIO

    from engine.client import hostimage
    from engine.client.image import credentials
else:
    TextIO = Any
    hostimage = late("engine.client.hostimage")
    credentials = late("engine.client.image.credentials")

PULL_OPTIONS = (
    Option("all-tags", "Download all tagged images in the repository", short="a", kind="flag", default=False),
    Option("platform", "Set platform if server is multi-platform capable"),
    Option("quiet", "Suppress verbose output", short="q", kind="flag", default=False),
)
PUSH_OPTIONS = (
    Option("all-tags", "Push all tags of an image to the repository", short="a", kind="flag", default=False),
    Option("platform", "Push a platform-specific manifest as a single-platform image to the registry"),
    Option("quiet", "Suppress verbose output", short="q", kind="flag", default=False),
)


def pull(api: Api, reference: str, out: TextIO, platform: str = "", quiet: bool = False, every: bool = False) -> None:
    """Pull an image, or all tags of a name, and show the progress on `out`. Raises ApiError."""
    name, tag = split_reference(reference)
    query = {"fromImage": name, "tag": None if every else tag, "platform": platform or None}
    headers = credentials.header(reference, os.environ)
    shown(api, "/images/create", query, headers, out, quiet)


def shown(api: Api, path: str, query: Query, headers: dict[str, str], out: TextIO, quiet: bool) -> None:
    """POST, and show the progress on `out`: with a bar for each layer on a terminal. Raises ApiError."""
    documents = api.progress(path, query, headers=headers)
    if quiet:
        for _ in documents:
            continue
        return
    width = terminal_size(out.fileno()) if out.isatty() else None
    progress.show(documents, out, width[1] if width else None)


def _parts(reference: str, every: bool, quiet: bool) -> tuple[str, str]:
    """The name and the tag that are meant; says so where that is the usual tag. Raises Invalid."""
    name, tag = split_reference(reference)
    if every and reference != name:
        raise Invalid("tag can't be used with --all-tags/-a")
    if not every and reference == name and not quiet:
        print("Using default tag: latest", flush=True)
    return name, tag


def pull_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine pull NAME[:TAG|@DIGEST]`: the last line is the name in full. Raises Invalid, ApiError."""
    (reference,) = others
    every, quiet = bool(given.get("all-tags")), bool(given.get("quiet"))
    name, tag = _parts(reference, every, quiet)
    pull(api, reference, sys.stdout, given_text(given, "platform"), quiet, every)
    print(whole_name(name) if every else whole_name(f"{name}{'@' if '@' in reference else ':'}{tag}"))
    return 0


def push_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine push NAME[:TAG]`. Raises Invalid, ApiError."""
    (reference,) = others
    every, quiet = bool(given.get("all-tags")), bool(given.get("quiet"))
    name, tag = _parts(reference, every, quiet)
    query = {"tag": None if every else tag, "platform": platform_of(given_text(given, "platform")) or None}
    headers = credentials.header(reference, os.environ)
    shown(api, image_path(name, "push"), query, headers, sys.stdout, quiet)
    if quiet:
        print(whole_name(name))
    return 0


def whole_name(name: str) -> str:
    """A name with what docker adds to it: `docker.io/library/busybox:latest`."""
    head, separator, _ = name.partition("/")
    if not separator:
        return f"docker.io/library/{name}"
    return name if "." in head or ":" in head or head == "localhost" else f"docker.io/{name}"


def host_image_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine image-from-host NAME PROGRAM...`: import an image of these programs of the host. Raises ApiError."""
    name, *programs = others
    repository, tag = split_reference(name)
    query = {"fromSrc": "-", "repo": repository, "tag": tag}
    progress.show(api.progress("/images/create", query, hostimage.rootfs(programs)), sys.stdout, None)
    return 0


FUNCTIONS = {
    "pull": (pull_verb, PULL_OPTIONS),
    "push": (push_verb, PUSH_OPTIONS),
    "image-from-host": (host_image_verb, ()),
}
