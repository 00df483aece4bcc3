"""The verbs `engine tag` and `engine rmi`: give images names, and take names and images away.

Runs in the client's one thread.
"""

import sys
from collections.abc import Sequence

from engine.client.api import Api, ApiError, image_path
from engine.client.image.imagenames import split_reference
from engine.commandline import Given, Option
from engine.errors import Invalid

RMI_OPTIONS = (
    Option("force", "Force removal of the image", short="f", kind="flag", default=False),
    Option("no-prune", "Do not delete untagged parents", kind="flag", default=False),
)
_NOT_FOUND = 404


def tag_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine tag SOURCE_IMAGE[:TAG] TARGET_IMAGE[:TAG]`. Raises Invalid, ApiError."""
    source, target = others
    if "@" in target:
        raise Invalid("refusing to create a tag with a digest reference")
    name, tag = split_reference(target)
    api.call("POST", image_path(source, "tag"), {"repo": name, "tag": tag})
    return 0


def rmi_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine rmi IMAGE...`: print what is taken away. An image that is not there is no failure with --force."""
    status = 0
    force = bool(given.get("force"))
    query = {"force": force, "noprune": bool(given.get("no-prune"))}
    for image in others:
        try:
            for done in api.call("DELETE", image_path(image), query):
                print(*(f"{what}: {name}" for what, name in done.items()), sep="\n")
        except ApiError as error:
            print(f"Error response from daemon: {error}", file=sys.stderr)
            if not force or error.status != _NOT_FOUND:
                status = 1
    return status


FUNCTIONS = {"tag": (tag_verb, ()), "rmi": (rmi_verb, RMI_OPTIONS)}
