"""Decodes the headers X-Registry-Auth and X-Registry-Config: a client's registry credentials, as JSON in URL-safe
base64.

Pure; the credentials are held for one request and never logged.
"""

import base64
import binascii
import re

from engine.daemon.api.body import Mapping, decode
from engine.daemon.api.schemas import AUTH_CONFIG
from engine.daemon.jsontext import Object
from engine.errors import Invalid

HEADER = "x-registry-auth"
CONFIG_HEADER = "x-registry-config"
_ALPHABET = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def decode_auth(value: str) -> Object | None:
    """The credentials in the value of X-Registry-Auth; None when it holds none, or cannot be read, as in dockerd.

    Shape: any of username, password, auth, serveraddress, identitytoken, registrytoken. A value can be read that is
    strictly the URL alphabet with its padding (RFC 4648 section 5), and holds an AuthConfig.
    """
    if not value or _fitting(value) != len(value):
        return None
    try:
        credentials = decode(base64.b64decode(value, b"-_", validate=True), AUTH_CONFIG)
    except (binascii.Error, Invalid):
        return None
    return {name: part for name, part in credentials.items() if part} or None


def decode_auths(value: str) -> dict[str, Object]:
    """The credentials in the value of X-Registry-Config: registry → credentials, shaped as in `decode_auth`. Raises
    Invalid.
    """
    if not value:
        return {}
    try:
        if (fits := _fitting(value)) != len(value):
            raise Invalid(f"illegal base64 data at input byte {fits}")
        decoded = decode(base64.b64decode(value, b"-_", validate=True), _CONFIGS)
    except (binascii.Error, Invalid) as error:
        raise Invalid(f"invalid X-Registry-Config header: {error}") from error
    return {host: {name: part for name, part in auth.items() if part} for host, auth in decoded.items()}


def _fitting(value: str) -> int:
    """How many characters at the beginning belong to the alphabet, the padding included."""
    fits = _ALPHABET.match(value)
    return fits.end() if fits else 0


_CONFIGS = Mapping(AUTH_CONFIG)
