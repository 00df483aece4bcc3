"""The endpoints of volumes: list, create, inspect, update, remove and prune.

Each function runs in its request's thread.
"""

from engine.daemon.api import versions
from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.request import Request
from engine.daemon.api.schemas import VOLUME_CREATE
from engine.daemon.network.drivers.choice import NO_MANAGER
from engine.daemon.parts import DaemonParts
from engine.daemon.volumes import listing
from engine.daemon.volumes import prune as pruning
from engine.errors import Unavailable

_NO_CLUSTER_VOLUMES = "volume update only valid for cluster volumes, but swarm is unavailable"


def list_(engine: DaemonParts, request: Request) -> Response:
    """GET /volumes: list volumes."""
    chosen, warnings = listing.chosen(engine.volumes, request.query.filters())
    return Json({"Volumes": [listing.show(volume) for volume in chosen], "Warnings": warnings or None})


def create(engine: DaemonParts, request: Request) -> Response:
    """POST /volumes/create: make a volume, or return the existing volume of this name."""
    body = request.required_json(VOLUME_CREATE)
    if body.get("ClusterVolumeSpec") is not None and versions.has_cluster_volumes(request.version):
        raise Unavailable(NO_MANAGER)
    volume = engine.volumes.create(
        body.get("Name") or "", body.get("Driver") or "", body.get("DriverOpts"), body.get("Labels")
    )
    return Json(listing.show(volume), 201)


def inspect(engine: DaemonParts, request: Request) -> Response:
    """GET /volumes/{name}: show one volume."""
    return Json(listing.show(engine.volumes.find(request.parameters["name"])))


def update(engine: DaemonParts, request: Request) -> None:
    """PUT /volumes/{name}: refused, since only a swarm's cluster volumes can be changed."""
    raise Unavailable(_NO_CLUSTER_VOLUMES)


def remove(engine: DaemonParts, request: Request) -> Response:
    """DELETE /volumes/{name}: remove a volume."""
    engine.volumes.remove(request.parameters["name"], request.query.flag("force"))
    return Empty()


def prune(engine: DaemonParts, request: Request) -> Response:
    """POST /volumes/prune: remove unused volumes."""
    named = versions.prunes_named_volumes(request.version)
    removed, reclaimed = pruning.prune(engine.volumes, request.query.filters(), all_by_default=named)
    engine.events.publish("volume", "prune", "", {"reclaimed": str(reclaimed)})
    return Json({"VolumesDeleted": removed, "SpaceReclaimed": reclaimed})
