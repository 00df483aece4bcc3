"""The headers X-Registry-Auth and X-Registry-Config: a client's credentials, as JSON in URL-safe base64.

Pure; what it returns is held for one request and never logged.
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
    """The credentials in a header's value; None when there are none in it.

    Shape: any of username, password, auth, serveraddress, identitytoken, registrytoken. Raises Invalid for what is not
    strictly the URL alphabet with its padding (RFC 4648 section 5), or no AuthConfig inside.
    """
    if not value:
        return None
    if (fits := _fitting(value)) != len(value):
        raise Invalid(f"invalid X-Registry-Auth header: illegal base64 data at input byte {fits}")
    try:
        text = base64.b64decode(value, b"-_", validate=True)
    except binascii.Error as error:
        raise Invalid(f"invalid X-Registry-Auth header: illegal base64 data at input byte {len(value)}") from error
    try:
        credentials = decode(text, AUTH_CONFIG)
    except Invalid as error:
        raise Invalid(f"invalid X-Registry-Auth header: {error}") from error
    return {name: part for name, part in credentials.items() if part} or None


def decode_auths(value: str) -> dict[str, Object]:
    """The credentials of X-Registry-Config: registry → as `decode_auth` gives them. Raises Invalid."""
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
    """How many characters at the beginning are of the alphabet, the padding included."""
    fits = _ALPHABET.match(value)
    return fits.end() if fits else 0


_CONFIGS = Mapping(AUTH_CONFIG)
