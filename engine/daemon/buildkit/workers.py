"""What this engine says of itself as a builder: one worker, and what a client may ask of it.

A capability is listed here once what it names is built, and not before: clients do without the others. A few are listed
so that clients ask, and are refused in words.
"""

from collections.abc import Sequence

from engine.daemon.builder import cdigrants, tending
from engine.daemon.builder.tending import Rule
from engine.daemon.buildkit.llb import knowledge
from engine.daemon.buildkit.messages.caps import APICap
from engine.daemon.buildkit.messages.worker import BuildkitVersion, CDIDevice, GCPolicy, WorkerRecord
from engine.daemon.containers.endpoints import etc
from engine.daemon.images import platform as platforms
from engine.daemon.parts import DaemonParts
from engine.literals import duration

VERSION: BuildkitVersion = {"package": "github.com/moby/buildkit", "version": "v0.32.2"}
"""Whose API this is, and of which version: clients leave out what an older BuildKit would not know."""
_GRAPH = (
    *("gc.freespacefilter", "history.filter"),
    *("exporter.image.annotations", "exporter.image.attestations", "exporter.multiple", "exporter.sourcedateepoch"),
)
# Kinds of caches that are refused in words. What a daemon does not know clients leave out without a word.
_REFUSED = ("cache.azblob", "cache.gha", "cache.s3")
_FRONTEND = (
    *("frontend.caps", "frontend.inputs", "gateway.evaluate", "gateway.exec", "gateway.exec.extrahosts"),
    *("gateway.exec.filesystem", "gateway.exec.secretenv", "gateway.exec.signals", "gateway.solve.evaluate"),
    *("gateway.solve.metadata", "gateway.warnings", "importcaches", "proto.refarray", "readdir", "readfile"),
    *(
        "reference.attestations",
        "reference.output",
        "resolveimage",
        "resolveimage.resolvemode",
        "return",
        "returnmap",
        "solve.base",
    ),
    *("solve.inlinereturn", "source.metaresolver", "source.metaresolver.http.checksumrequest"),
    *("source.metaresolver.image.attestations", "statfile"),
)
# With this label clients have a daemon export and push whatever it can; its value is shown, and means nothing else.
_LABELS = {
    "org.mobyproject.buildkit.worker.executor": "engine",
    "org.mobyproject.buildkit.worker.snapshotter": "overlayfs",
}
_TIMES = ("until", "unused-for")  # filters that say for how long a record was not used
# The client puts this address in the place of `host-gateway`.
_GATEWAY = "org.mobyproject.buildkit.worker.moby.host-gateway-ip"


def record(engine: DaemonParts) -> WorkerRecord:
    """The one worker. Its name is the daemon's id."""
    host = platforms.host()
    gateways = etc.gateways(engine)
    return {
        "ID": engine.id,
        "Labels": {**_LABELS, **({_GATEWAY: gateways[0]} if gateways else {})},
        "BuildkitVersion": VERSION,
        "platforms": [{"Architecture": host.architecture, "OS": host.os, "Variant": host.variant}],
        "GCPolicy": [_shown(rule) for rule in tending.rules(engine)],
        "CDIDevices": _devices(engine.settings.cdi_spec_dirs),
    }


def _devices(directories: Sequence[str]) -> list[CDIDevice]:
    """The CDI devices that a build may ask for."""
    return [
        {"Name": name, "AutoAllow": granted, "Annotations": dict(annotations)}
        for name, granted, annotations in cdigrants.listed(directories)
    ]


def _shown(rule: Rule) -> GCPolicy:
    """A rule by which the cache is tended. Of its texts any one has to hold, and of what is joined by commas all."""
    chosen = ",".join(f"{name}=={value}" for name, value in rule.filters if name not in _TIMES)
    idle = [duration(value) for name, value in rule.filters if name in _TIMES]
    return {
        "all": rule.all,
        "keepDuration": max(rule.idle_ns, *idle, 0),
        "filters": [f"type=={kind}" for kind in sorted(rule.kinds)] if rule.kinds else [chosen] if chosen else [],
        "reservedSpace": rule.reserved_bytes,
        "maxUsedSpace": rule.most_bytes,
        "minFreeSpace": rule.free_bytes,
    }


def frontend_capabilities() -> list[APICap]:
    """What a frontend may ask."""
    return [{"ID": name, "Enabled": True} for name in _FRONTEND]


def graph_capabilities() -> list[APICap]:
    """What a frontend may write into a graph of operations, and what a client may ask of Control."""
    return [{"ID": name, "Enabled": True} for name in (*_GRAPH, *_REFUSED, *knowledge.CAPABILITIES)]
