"""Reads addresses of the form SCHEME://HOST:PORT/PATH into their parts, as Go's url.Parse and net.SplitHostPort do.

Pure; used by the daemon's request threads. `urllib.parse` is not used: it takes what Go refuses.
"""

import re

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import LAST_PORT, natural, quoted

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://(.*)", re.DOTALL)
_BAD_HOST = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]")


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of an address; empty for those that it has not. host: without brackets; rest: path, query, fragment"""

    scheme: str
    host: str
    port: str
    rest: str

    @property
    def place(self) -> str:
        """HOST:PORT, an IPv6 address in brackets."""
        return joined(self.host, self.port)


def joined(host: str, port: str | int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parsed(text: str) -> Url:
    """The parts of an address. Raises Invalid in Go's words for one that makes no sense."""
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise Invalid(f"parse {quoted(text)}: net/url: invalid control character in URL")
    found = _SCHEME.fullmatch(text)
    if found is None:
        return Url("", "", "", text)
    whole = found[2]
    end = min((place for mark in "/?#" if (place := whole.find(mark)) >= 0), default=len(whole))
    authority = whole[:end].rpartition("@")[2]
    host, port = authority, ""
    if authority.startswith("["):
        host, closed, after = authority[1:].partition("]")
        if not closed or (after and not after.startswith(":")):
            raise Invalid(f"parse {quoted(text)}: missing ']' in host")
        port = after[1:]
    elif ":" in authority:
        host, _, port = authority.partition(":")
    if _BAD_HOST.search(host):
        raise Invalid(f"parse {quoted(text)}: invalid character in host name")
    if port and not (port.isascii() and port.isdigit()):
        raise Invalid(f"parse {quoted(text)}: invalid port {quoted(':' + port)} after host")
    return Url(found[1].lower(), host, port, whole[end:])


def port_of(text: str) -> int:
    """A port's number. Raises Invalid in the words of Go's strconv.ParseUint."""
    number = natural(text, LAST_PORT)
    if number is None:
        why = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
        raise Invalid(f"strconv.ParseUint: parsing {quoted(text)}: {why}")
    return number


def ascii_host(host: str) -> str:
    """The host's name in the ASCII form for DNS (RFC 3490). Raises Invalid for one that has none."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError as error:
        raise Invalid(f"invalid host {quoted(host)}") from error
