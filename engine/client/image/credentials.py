"""Finds the user's credentials for a registry where docker keeps them: config.json, or a program that it names.

Runs in the client's one thread. It reads `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`. A missing file, or
a registry without an entry, means no credentials. `engine` itself has no `login`: `docker login`, `podman login
--authfile` and others write that file.
"""

import base64
import json
import os
import subprocess
from collections.abc import Mapping

from engine.client.image.imagenames import registry_of
from engine.client.transport import Object
from engine.errors import Invalid, Unavailable
from engine.kernel import reasons

# Docker Hub has this name in the file.
_HUB = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"
_HELPER_SECONDS = 60
_NONE = "credentials not found"


def header(reference: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The header X-Registry-Auth for the registry of an image; empty credentials where there are none. Raises Invalid,
    Unavailable.
    """
    found = credentials(registry_of(reference), environ)
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(found).encode()).decode()}


def all_header(environ: Mapping[str, str]) -> dict[str, str]:
    """The header X-Registry-Config for a build: the credentials of all registries that the file itself has."""
    found = {name: _decoded(name, entry) for name, entry in (_config(environ).get("auths") or {}).items() if entry}
    return {"X-Registry-Config": base64.urlsafe_b64encode(json.dumps(found).encode()).decode()}


def credentials(registry: str, environ: Mapping[str, str]) -> dict[str, str]:
    """An AuthConfig of the API, {} for none. Raises Invalid for a malformed file, Unavailable for a failed program."""
    config = _config(environ)
    address = _HUB if registry == "docker.io" else registry
    program = (config.get("credHelpers") or {}).get(address) or config.get("credsStore")
    if program:
        return _asked(str(program), address)
    for name, entry in (config.get("auths") or {}).items():
        if entry and _host(name) == _host(address):
            return _decoded(address, entry)
    return {}


def _config(environ: Mapping[str, str]) -> Object:
    place = environ.get("DOCKER_CONFIG") or os.path.join(environ.get("HOME", "/"), ".docker")
    path = os.path.join(place, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read {path}: {reasons.whole(error)}") from error
    if not isinstance(found, dict):
        raise Invalid(f"cannot read {path}: it is no JSON object")
    return found


def _host(address: str) -> str:
    """`https://host/v1/` and `host` are one registry."""
    return address.partition("://")[2].partition("/")[0] if "://" in address else address.partition("/")[0]


def _decoded(address: str, entry: Object) -> dict[str, str]:
    found = {"serveraddress": address}
    if token := entry.get("identitytoken"):
        return found | {"identitytoken": str(token)}
    try:
        user, _, password = base64.b64decode(entry.get("auth", "")).decode().partition(":")
    except ValueError as error:
        raise Invalid(f"the credentials of {address} in config.json are malformed") from error
    return found | {"username": user, "password": password.rstrip("\0")}


def _asked(program: str, address: str) -> dict[str, str]:
    """What a program `docker-credential-NAME` says (its command `get`)."""
    name = f"docker-credential-{os.path.basename(program)}"
    try:
        done = subprocess.run(
            [name, "get"], input=address.encode(), capture_output=True, timeout=_HELPER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"cannot get credentials of {address} from {name}: {reasons.whole(error)}") from error
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        if _NONE in text:
            return {}
        raise Unavailable(f"cannot get credentials of {address} from {name}: {text}")
    try:
        said: Object = json.loads(text)
        user, secret = str(said["Username"]), str(said["Secret"])
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(f"{name} gave no credentials of {address}") from error
    found = {"serveraddress": address}
    return found | ({"identitytoken": secret} if user == _TOKEN_USER else {"username": user, "password": secret})
