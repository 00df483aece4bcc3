"""What becomes of a build's result: the exporters that a client names, and what it is told of each.

Runs on the thread of Control/Solve.
"""

import base64
import json
from collections.abc import Mapping

from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.messages.control import Exporter, SolveRequest
from engine.daemon.buildkit.outcome import Outcome
from engine.daemon.images.reference import Reference
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid, NotBuilt

_STORE = "moby"
# Options of the exporter that this engine has no use for: an image is named by its digest, unpacked,
# and in the store that it would be loaded into.
_NO = ("", "0", "f", "false")
_WITHOUT_EFFECT = ("load", "prefer-image-digest", "unpack")


def exporters_of(asked: SolveRequest) -> list[Exporter]:
    """The exporters of a request. Raises NotBuilt for one that this engine does not have, Invalid for a bad name."""
    found = asked["Exporters"]
    if not found and asked["ExporterDeprecated"]:  # clients before BuildKit 0.13 know one alone
        found = [{"Type": asked["ExporterDeprecated"], "Attrs": asked["ExporterAttrsDeprecated"]}]
    for each in found:
        if each["Type"] != _STORE:
            raise NotBuilt(f"the exporter {each['Type']} (--output) is not built in this engine")
        for key, value in each["Attrs"].items():
            if key == "push" and value.lower() in _NO:
                continue
            if key != "name" and key not in _WITHOUT_EFFECT:
                raise NotBuilt(f"the option {key} of the exporter {_STORE} is not built in this engine")
        _names(each["Attrs"])
    return found


def export(engine: DaemonParts, job: Job, outcome: Outcome, exporters: list[Exporter]) -> dict[str, str]:
    """Name the image; what the client is told of it."""
    told: dict[str, str] = {}
    image = outcome.trees[0].image
    if image is None:
        raise NotBuilt("exporting what is no image yet is not built in this engine")
    for each in exporters:
        vertex = job.progress.vertex("exporting to image")
        vertex.begin()
        names = _names(each["Attrs"])
        vertex.count(f"writing image {image.id}", 0, ended=True)
        for name in names:
            engine.images.tag(image, name)
            vertex.count(f"naming to {name.canonical}", 0, ended=True)
        vertex.end()
        descriptor = json.dumps(image.descriptor, separators=(",", ":")).encode()
        told |= {
            "containerimage.digest": image.id,
            "containerimage.descriptor": base64.b64encode(descriptor).decode(),
            **({"image.name": ",".join(name.canonical for name in names)} if names else {}),
        }
    return told


def _names(attributes: Mapping[str, str]) -> list[Reference]:
    found = [Reference.parse(name.strip()) for name in attributes.get("name", "").split(",") if name.strip()]
    if any(name.digest for name in found):
        raise Invalid("build tag cannot contain a digest")
    return [name.with_default_tag() for name in found]
