"""Reads the URL of a file as Go's net/url does: with the escapes that its path lacks, or a refusal in Go's words.

Pure. The URL of an import comes as a parameter of a request, so whoever escaped it once for that and no more has sent a
path with plain blanks and letters. Go escapes them anew.
"""

import re
from urllib.parse import quote, unquote_to_bytes

from engine.errors import Invalid, SystemFailure
from engine.literals import quoted
from engine.redact import MASK, redacted

_CONTROL = re.compile(r"[\0-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_ESCAPE = re.compile(r"%.{0,2}")
_NO_HOST = re.compile(r"[^A-Za-z0-9_.~!$&'()*+,;=:\[\]<>\"-]")
_NO_USER = re.compile(r"[^A-Za-z0-9_.~!$&'()*+,;=:@%-]")
_PORT = re.compile(r":[0-9]*")
_WELL_ESCAPED = re.compile(r"[A-Za-z0-9_.~!$&'()*+,;=:@/%\[\]-]*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN_IN_A_PATH = "$&+,/:;=@"
_VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F))
_SCHEMES = ("http", "https")


def normal(text: str) -> str:
    """The URL with a scheme in small letters and a path and query of visible ASCII; without what follows a `#`.

    A path in which each character may stand as it is stays the same; any other is decoded and escaped anew.
    Raises Invalid for what is no URL, SystemFailure for one that names no host or another scheme than http and https.
    """
    if _CONTROL.search(text):
        raise _no_url(text, "net/url: invalid control character in URL")
    scheme, mark, rest = text.partition("#")[0].partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in _SCHEMES:
        raise SystemFailure(f"Get {quoted(text)}: unsupported protocol scheme {quoted(scheme if mark else '')}")
    rest, question, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    user, at, place = authority.rpartition("@")
    if _NO_USER.search(user):
        raise _no_url(text, "net/url: invalid userinfo")
    _check_place(text, place)
    if bad := _BAD_ESCAPE.search(path):
        raise _no_url(text, f"invalid URL escape {quoted(bad[0])}")
    if not _WELL_ESCAPED.fullmatch(path):
        path = quote(unquote_to_bytes(path), safe=_PLAIN_IN_A_PATH)
    # Go sends a query as it came, and servers refuse what has blanks in it then.
    return f"{scheme}://{user}{at}{place}{slash}{path}{question}{quote(query, safe=_VISIBLE)}"


def _check_place(text: str, place: str) -> None:
    """Raise for a HOST[:PORT] that cannot be asked."""
    if place.startswith("["):
        _, closed, port = place.partition("]")
        if not closed:
            raise _no_url(text, "missing ']' in host")
    else:
        host, _, _ = place.rpartition(":") if ":" in place else (place, "", "")
        port = place[len(host) :]
        if "%" in host:
            raise _no_url(text, f"invalid URL escape {quoted(_ESCAPE.findall(host)[0])}")
        if bad := _NO_HOST.search(host):
            raise _no_url(text, f"invalid character {quoted(bad[0])} in host name")
        if not host:
            raise SystemFailure(f"Get {quoted(text)}: http: no Host in request URL")
    if port and not _PORT.fullmatch(port):
        raise _no_url(text, f"invalid port {quoted(port)} after host")


def _no_url(text: str, why: str) -> Invalid:
    # With credentials, what seems to be a host or a port may be a part of them.
    return Invalid(f"parse {quoted(text)}: {why if redacted(text) == text else _QUOTED.sub(MASK, why)}")
