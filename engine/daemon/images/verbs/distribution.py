"""Asking a registry for an image's descriptor and platforms without pulling it (GET /distribution/{name}/json).

Runs in the daemon, on the request's thread. It keeps nothing, and needs no image in the daemon.
"""

import contextlib
import logging

from engine.daemon.images import image as documents
from engine.daemon.images.content import digest_of
from engine.daemon.images.reference import Reference
from engine.daemon.images.registry.reads import Registry, registries
from engine.daemon.images.registry.transport import read_body
from engine.daemon.jsontext import Object
from engine.errors import EngineError, Invalid, NotFound, SystemFailure, Unauthorized
from engine.settings.every import Settings

log = logging.getLogger(__name__)

# The fields of a platform, in docker's order, with their types.
_PLATFORM = {"architecture": str, "os": str, "os.version": str, "os.features": list, "variant": str}
_IDENTIFIER_LENGTH = 64


def inspect(settings: Settings, text: str, auth: Object | None) -> Object:
    """The answer of GET /distribution/{name}/json: `Descriptor` and `Platforms`. Mirrors are asked before docker.io.

    settings: `registry_mirrors` and `insecure_registries` are read. Raises Invalid, NotFound, Unauthorized,
    SystemFailure.
    """
    if _is_identifier(text):
        raise SystemFailure("no manifest found for full image ID")
    reference = Reference.parse(text).with_default_tag()
    endpoints = registries(reference, tuple(settings.registry_mirrors), tuple(settings.insecure_registries), auth)
    for registry in endpoints:
        try:
            with contextlib.closing(registry.transport):
                return _asked(registry, reference)
        except EngineError as error:
            if registry is endpoints[-1]:
                raise _in_docker_words(error) from error
            log.info("the mirror %s does not have %s: %s", registry.origin.netloc, reference.canonical, error)
    raise AssertionError("there is always the registry itself")


def _is_identifier(text: str) -> bool:
    value = text.removeprefix("sha256:")
    return len(value) == _IDENTIFIER_LENGTH and not value.strip("0123456789abcdef")


def _in_docker_words(error: EngineError) -> EngineError:
    if not isinstance(error, Unauthorized):
        return error
    text = str(error).removeprefix("authorization failed: ")
    return Unauthorized(text if "no basic auth" in text else f"unauthorized: {text}".replace("unauthorized: " * 2, ""))


def _asked(registry: Registry, reference: Reference) -> Object:
    registry.ping()
    data, said = registry.manifest(reference.digest or reference.tag)
    document = documents.load(data, "manifest")
    kind = documents.media_type_of(document, said)
    found = documents.descriptor(kind, digest_of(data), len(data))
    if kind in documents.INDEXES:
        entries = documents.index_entries(document)
        platforms = [_platform(its) for entry in entries if isinstance(its := entry.get("platform"), dict)]
    else:
        platform = _platform(_config(registry, document))
        platforms = [platform] if platform.get("os") or platform.get("architecture") else []
    return {"Descriptor": found, "Platforms": platforms}


def _config(registry: Registry, manifest: Object) -> Object:
    """The config document, empty if it is invalid or missing: then the answer has the descriptor without platforms."""
    part = documents.descriptor_of(manifest.get("config"), "manifest")
    if part["size"] > documents.LARGEST_DOCUMENT:
        return {}
    try:
        with registry.blob(part["digest"]) as (answer, _):
            data = read_body(answer, part["size"])
        return documents.load(data, "image config") if digest_of(data) == part["digest"] else {}
    except (Invalid, NotFound) as error:
        log.info("no config in %s: %s", part["digest"], error)
        return {}


def _platform(document: Object) -> Object:
    """The fields of a platform in a document; values of a wrong type are left out."""
    return {name: document[name] for name, kind in _PLATFORM.items() if isinstance(document.get(name), kind)}
