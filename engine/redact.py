"""Hides the credentials in whatever is shown: a URL's user and password become `xxxxx`, as with dockerd and BuildKit.

Pure. Each failure's text (`errors`) and each line of the daemon's log passes `redacted`, and so does each text about a
build or an import that has a client's URL in it: names of steps, histories, descriptions in the cache, provenance.
"""

import re

from engine.regex import regex

MASK = "xxxxx"
# What stands before the host. Where a password has a slash or a blank that should have been escaped, what seems to be
# the port is none, and the password goes on until an `@`.
_BEFORE_HOST = regex(r"(?<=://)([^\s/?#]*|[^\s/?#@\[:]*:(?!\d*(?:[/?#\s\"]|\Z))[^\n\"]{0,256})@")
_IMAGES = ("docker-image://", "oci-layout://")  # there an `@` stands before a digest


def redacted(text: str) -> str:
    """A text with the credentials hidden in each URL in it."""
    return _BEFORE_HOST.sub(_hidden, text) if "://" in text and "@" in text else text


def proxy(text: str) -> str:
    """A proxy's URL, which need not have a scheme, as `docker info` shows it."""
    before, at, place = text.rpartition("@")
    scheme = before.partition("://")[0] + "://" if "://" in before else ""
    return f"{scheme}{MASK}:{MASK}@{place}" if at else text


def _hidden(found: "re.Match[str]") -> str:
    if found.string.endswith(_IMAGES, 0, found.start()):
        return found[0]
    user, colon, _ = found[1].partition(":")
    if user and not found.string.endswith("ssh://", 0, found.start()):  # there a user's name is no secret
        user = MASK
    return f"{user}:{MASK}@" if colon else f"{user}@"
