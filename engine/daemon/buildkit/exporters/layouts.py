"""The exporters `oci` and `docker`: an image as an archive that the client writes, or in a content store of its own.

Runs on the thread of Control/Solve. An archive is an OCI layout; that of `docker` has docker's own manifest.json too,
so that every `docker load` takes it. With `tar=false` the client keeps the parts in a directory (an OCI layout), which
it serves as containerd's content store.
"""

import io
import time

from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.buildkit.exporters import composing
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.composing import Composed
from engine.daemon.buildkit.exporters.filesend import SentFile
from engine.daemon.buildkit.exporters.kind import CONFIG, Work, asked_names, described, wish_of
from engine.daemon.clock import SECOND, rfc3339
from engine.daemon.images import image as documents
from engine.daemon.images.verbs.save import Archive
from engine.daemon.jsontext import Object
from engine.errors import Invalid

_CREATED = "org.opencontainers.image.created"
_STORE = "export"


class LayoutExporter:
    """An archive or a layout. Raises Invalid, NotBuilt and Unavailable for options that cannot be."""

    def __init__(self, number: int, attrs: Attrs, docker: bool) -> None:
        """docker: it is the exporter `docker`, for one platform"""
        self.title = f"exporting to {'docker' if docker else 'oci'} image format"
        self.names = asked_names(attrs.text("name"))
        self.documents = attrs.beginning(CONFIG)
        self.epoch = attrs.number("source-date-epoch")
        self._number = number
        self._docker = docker
        self._wish = wish_of(attrs, inline=False)
        self._tar = attrs.flag("tar", True)

    def export(self, work: Work) -> dict[str, str]:
        """Compose, and send it all."""
        store, vertex = work.engine.images, work.vertex
        if self._docker and work.result.outcome.several:
            raise Invalid("docker exporter does not currently support exporting manifest lists")
        vertex.count("exporting layers", 0)
        composed = composing.compose(store, work.held, work.result, self._wish, work.job.check)
        vertex.count("exporting layers", 0, ended=True)
        composed.target = self._dated(composed.target, work.result.epoch)
        told = described(composed, work.result.names, config=True)
        if self._tar:
            vertex.count("sending tarball", 0)
            with SentFile(work.session(), self._number, told, work.job.check) as file:
                self._archive(work, composed).send(file)
            vertex.count("sending tarball", file.sent, ended=True)
        else:
            self._copied(work, composed)
        return told

    def _dated(self, target: Object, epoch: int | None) -> Object:
        annotations = target.get("annotations") or {}
        moment = rfc3339(time.time_ns() // SECOND * SECOND if epoch is None else epoch * SECOND)
        return {**target, "annotations": {_CREATED: moment, **annotations}}

    def _copied(self, work: Work, composed: Composed) -> None:
        there = ClientStore(work.session(), _STORE, work.job.check)
        for digest, size in composed.blobs.items():
            data = composed.documents.get(digest)
            if data is not None:
                there.put(digest, io.BytesIO(data), size)
                continue
            with work.engine.images.content.open(digest) as blob:
                there.put(digest, blob, size)

    def _archive(self, work: Work, composed: Composed) -> Archive:
        made = Archive(work.engine.images, docker=self._docker)
        shown = documents.load(composed.documents[composed.trees[0].manifest["digest"]], "manifest")
        for name in work.result.names or (None,):
            made.add(composed.target, name, shown, composed.blobs)
        for data in composed.documents.values():
            made.document(data)
        return made
