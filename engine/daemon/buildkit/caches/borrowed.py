"""The places that a client names for a build to borrow from, made of its options.

Runs on the thread of Control/Solve for the options; the places are opened on a thread of their own.
"""

from collections.abc import Callable

from engine.daemon.buildkit import authority, sessions
from engine.daemon.buildkit.caches.cacheplaces import CachePlace, InClientStore, InRegistry
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.jobs import Job
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.registry.reads import registries
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid

Opened = tuple[str, Callable[[], CachePlace]]
"""The name of a place for people, and the function that opens it."""


def registry(engine: DaemonParts, job: Job, attrs: Attrs) -> Opened:
    """A cache or an image in a registry. Raises Invalid."""
    name = attrs.text("ref")
    if not name:
        raise Invalid("a cache in a registry needs a ref")
    reference, insecure = Reference.parse(name).with_default_tag(), attrs.flag("registry.insecure")

    def opened() -> CachePlace:
        settings = engine.settings
        trusted = (*settings.insecure_registries, *((reference.domain,) if insecure else ()))
        auth = authority.credentials(sessions.find(job.asked["Session"]), reference.domain, job.check)
        endpoint = registries(reference, (), tuple(trusted), auth)[-1]
        return InRegistry(endpoint, reference.digest or reference.tag, job.check)

    return reference.canonical, opened


def local(_engine: DaemonParts, job: Job, attrs: Attrs) -> Opened:
    """A cache in a directory of the client, which has looked up its digest. Raises Invalid."""
    source, digest = attrs.text("src"), attrs.text("digest")
    attrs.text("tag")  # by which the client has found the digest
    if not source:
        raise Invalid("a local cache needs a src")
    if not digest:
        raise Invalid('local cache importer requires either explicit digest, "latest" tag or custom tag on index.json')
    check_digest(digest)

    def opened() -> CachePlace:
        store = ClientStore(sessions.find(job.asked["Session"]), f"local:{source}", job.check)
        return InClientStore(store, digest)

    return f"local:{digest}", opened


def inline(_engine: DaemonParts, _job: Job, _attrs: Attrs) -> None:
    """Nothing: a cache inside an image is found where the image is, which `type=registry` names."""
