"""The endpoint GET /system/df, which tells how much disk space images, containers, volumes and the build cache use.

It runs in the request's thread.
"""

from collections.abc import Sequence

from engine.daemon import diskusage
from engine.daemon.api import usageform
from engine.daemon.api.answers import Json, Response
from engine.daemon.api.request import Request
from engine.daemon.parts import DaemonParts


def df(engine: DaemonParts, request: Request) -> Response:
    """GET /system/df: disk usage of all kinds, or of those that `type` names."""
    kinds: Sequence[str] = diskusage.KINDS
    if usageform.takes_kinds(request.version) and "type" in request.query:
        kinds = request.query.every("type")
        diskusage.check(kinds)
    usage = diskusage.measure(engine, kinds)
    return Json(usageform.shown(request.version, usage, request.query.flag("verbose")))
