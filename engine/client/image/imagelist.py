"""The verb `engine images`: shows a table of the images.

Runs in the client's one thread.
"""

import time
from collections.abc import Sequence

from engine.client.api import Api
from engine.client.display import age, moment, short_id, size
from engine.client.filtering import FILTER, query_of
from engine.client.image.imagenames import split_reference
from engine.client.showing.listings import FORMAT, Listing, Row, show
from engine.client.transport import Object
from engine.commandline import Given, Option, given_text, given_texts

OPTIONS = (
    Option("all", "Show all images (default hides intermediate images)", short="a", kind="flag", default=False),
    Option("digests", "Show digests", kind="flag", default=False),
    FILTER,
    FORMAT,
    Option("no-trunc", "Don't truncate output", kind="flag", default=False),
    Option("quiet", "Only show image IDs", short="q", kind="flag", default=False),
)
LISTING = Listing(
    {
        "Repository": "REPOSITORY",
        "Tag": "TAG",
        "Digest": "DIGEST",
        "ID": "IMAGE ID",
        "CreatedSince": "CREATED",
        "CreatedAt": "CREATED AT",
        "Size": "SIZE",
        "Containers": "CONTAINERS",
        "SharedSize": "SHARED SIZE",
        "UniqueSize": "UNIQUE SIZE",
        "VirtualSize": "SIZE",
    },
    ("Repository", "Tag", "ID", "CreatedSince", "Size"),
)
_WITH_DIGESTS = ("Repository", "Tag", "Digest", "ID", "CreatedSince", "Size")
_NONE = "<none>"
_UNKNOWN = "N/A"


def images_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine images [REPOSITORY[:TAG]]`. Raises Invalid, ApiError."""
    names = [("reference", name) for name in others]
    query = {"all": bool(given.get("all")), "filters": query_of(given_texts(given, "filter"), *names)}
    found = api.call("GET", "/images/json", query)
    full, digests, now = bool(given.get("no-trunc")), bool(given.get("digests")), time.time()
    form = given_text(given, "format")
    digests = digests or ".Digest" in form
    # As with docker, a list does not count containers, and digests are shown where they are asked for.
    unsaid = {"Containers": _UNKNOWN} | ({} if digests else {"Digest": _NONE})
    rows = [{**row, **unsaid} for image in found for row in image_rows(image, full, now)]
    if given.get("quiet") and not form:
        form, rows = "{{.ID}}", list({str(row["ID"]): row for row in rows}.values())
    show(LISTING, rows, form, _WITH_DIGESTS if digests else ())
    return 0


def image_rows(image: Object, full: bool, now: float) -> list[Row]:
    """The fields of one image of GET /images/json, once for each of its names."""
    of_digest = {name: digest for name, _, digest in (text.partition("@") for text in image.get("RepoDigests") or ())}
    names = [split_reference(name) for name in image.get("RepoTags") or () if name != "<none>:<none>"]
    if not names:
        names = [(name, _NONE) for name in of_digest if name != _NONE] or [(_NONE, _NONE)]
    shared, whole = image.get("SharedSize", -1), image["Size"]
    created = image["Created"]
    row = {
        "ID": image["Id"] if full else short_id(image["Id"]),
        "CreatedSince": f"{age(now - created)} ago" if created > 0 else _UNKNOWN,
        "CreatedAt": moment(created),
        "Size": size(whole),
        "VirtualSize": size(whole),
        "SharedSize": size(shared) if shared >= 0 else _UNKNOWN,
        "UniqueSize": size(whole - shared) if shared >= 0 else _UNKNOWN,
        "Containers": str(image["Containers"]) if image.get("Containers", -1) >= 0 else _UNKNOWN,
    }
    return [{**row, "Repository": name, "Tag": tag, "Digest": of_digest.get(name, _NONE)} for name, tag in names]


FUNCTIONS = {"images": (images_verb, OPTIONS)}
