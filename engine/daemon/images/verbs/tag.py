"""Tagging an image, that is giving it one more name (POST /images/{name}/tag).

Runs in the daemon, on the request's thread.
"""

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.errors import Invalid


def tag(store: Catalogue, ref: str, repo: str, name: str) -> Image:
    """Make `repo:name` (`latest` without a name) point at the image called `ref`; returns the image.

    Raises Invalid in docker's words (transcript 214, 215), before the image is looked up; NotFound.
    """
    reference = target(repo, name)
    image = store.find(ref)
    store.tag(image, reference)
    return image


def target(repo: str, name: str) -> Reference:
    """The reference from the API's parameters `repo` and `tag`. Raises Invalid."""
    reference = Reference.parse(repo)
    if reference.digest:
        raise Invalid("cannot import digest reference")
    if name:
        reference = reference.with_tag(name)
    if reference.familiar_name == "sha256":
        raise Invalid("refusing to create an ambiguous tag using digest algorithm as name")
    return reference.with_default_tag()
