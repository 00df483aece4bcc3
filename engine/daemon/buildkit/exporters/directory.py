"""The exporters `local` and `tar`: the files of a result, in a directory of the client or in an archive that it writes.

Runs on the thread of Control/Solve. The files of several platforms stand in directories like `linux_amd64`, unless the
client wants them in one. What goes is what the tree has; the client's side keeps it inside its directory.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from engine.daemon.buildkit.exporters import intoto, treesend, walked
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.filesend import SentFile
from engine.daemon.buildkit.exporters.intoto import Attestation, Subject
from engine.daemon.buildkit.exporters.kind import Work
from engine.daemon.buildkit.exporters.walked import Top
from engine.daemon.buildkit.outcome import Tree
from engine.daemon.clock import SECOND
from engine.daemon.images.layers import merged
from engine.daemon.images.reference import Reference
from engine.daemon.tar.writer import Packer
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.kernel.beneath import open_beneath

_MODES = ("", "copy", "delete")
_PIECE = 1 << 20
_SEPARATORS = str.maketrans("/\\:", "___")  # of a platform's id, which names a directory
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class _Files:
    """What both exporters do."""

    names: tuple[Reference, ...] | None = ()
    documents: dict[str, str] = {}

    def __init__(self, number: int, attrs: Attrs) -> None:
        self.epoch = attrs.number("source-date-epoch")
        self._number = number
        self._split = attrs.choice("platform-split")
        self._prefix = attrs.text("attestation-prefix")
        self._source = attrs.text("src")
        if attrs.text("mode") not in _MODES:
            raise Invalid("invalid mode of the exporter: it is copy or delete")

    def _tops(self, work: Work, held: ExitStack) -> list[Top]:
        """The trees; they stay open as long as `held`."""
        trees = work.result.outcome.trees
        several = work.result.outcome.several
        split = several if self._split is None else self._split
        found = []
        for number, tree in enumerate(trees):
            root = held.enter_context(merged.held(work.engine.images.layer_root, work.layer_names(number)))
            readable = _opened(root, self._source)
            held.callback(os.close, readable)
            said = [each for each in _of(work, number) if not each.inline_only]
            place = tree.platform_id.translate(_SEPARATORS)
            place = "_" * len(place) if place in (".", "..") else place
            below = place if split else ""
            extension = f".{place}" if several and not split else ""
            files = self._statements(readable, tree, said, extension, work.job.check)
            found.append(Top(readable, below, tree.platform_id, files))
        return found

    def _statements(
        self, root: int, tree: Tree, said: Sequence[Attestation], extension: str, check: Callable[[], None]
    ) -> dict[str, bytes]:
        if not said:
            return {}
        subjects = list(_subjects(Top(root, "", tree.platform_id, {}), check))
        named = {}
        for each in said:
            stem, _, ending = each.name.rpartition(".")
            name = f"{self._prefix}{stem}{extension}.{ending}" if stem else f"{self._prefix}{each.name}{extension}"
            if name in named:
                raise Invalid(f"duplicate attestation path name {name}")
            named[name] = intoto.statement(each, subjects).data
        return named


def _opened(root: int, source: str) -> int:
    try:
        return open_beneath(root, source, _READABLE)
    except OSError as error:
        raise Invalid(f"src={source}: {reasons.of(error)}") from error


def _of(work: Work, number: int) -> Sequence[Attestation]:
    return work.result.attestations[number] if work.result.attestations else ()


def _subjects(top: Top, check: Callable[[], None]) -> Iterator[Subject]:
    """Each file of a tree, with its digest."""
    for found in walked.entries([top], None, 0):
        if not found.has_data:
            continue
        check()
        fd = found.open()
        try:
            digest = hashlib.sha256()
            while data := os.read(fd, _PIECE):
                digest.update(data)
        finally:
            os.close(fd)
        yield Subject(os.fsdecode(b"/".join(found.parts)), (f"sha256:{digest.hexdigest()}",))


class LocalExporter(_Files):
    """A directory of the client. Raises Invalid and NotBuilt for options that cannot be."""

    title = "exporting to client directory"

    def export(self, work: Work) -> dict[str, str]:
        """Send the files that the client does not have."""
        with ExitStack() as held:
            entries = walked.entries(self._tops(work, held), work.result.epoch, time.time_ns())
            told = 0

            def come(count: int) -> None:
                nonlocal told
                if count - told > _PIECE or count < told:
                    told = count
                    work.vertex.count("copying files", count, name="transferring")

            work.vertex.count("copying files", 0, name="transferring")
            sent = treesend.send(work.session(), self._number, entries, come, work.job.check)
            work.vertex.count("copying files", sent, name="transferring", ended=True)
        return {}


class TarExporter(_Files):
    """An archive of the files, which the client writes."""

    title = "exporting to client tarball"

    def export(self, work: Work) -> dict[str, str]:
        """Pack and send the files."""
        epoch = work.result.epoch
        packer = Packer(shown_as=None if epoch is None else lambda found: _dated(found, epoch))
        with ExitStack() as held:
            tops = self._tops(work, held)
            if len({top.below for top in tops}) < len(tops):
                for _ in walked.entries(tops, epoch, 0):  # files that two platforms have are refused before any goes
                    work.job.check()
            work.vertex.count("sending tarball", 0)
            with SentFile(work.session(), self._number, {}, work.job.check) as file:
                try:
                    for top in tops:
                        _pack(packer, top, file, epoch)
                except OSError as error:
                    raise SystemFailure(f"the result's files cannot be read: {reasons.whole(error)}") from error
                file.write_large(packer.end())
            work.vertex.count("sending tarball", file.sent, ended=True)
        return {}


def _pack(packer: Packer, top: Top, file: SentFile, epoch: int | None) -> None:
    when = time.time_ns() // SECOND if epoch is None else epoch
    packer.unlink()
    below = f"{top.below}/" if top.below else ""
    if below:
        packer.blank(below, _status(0o040755, 0, when))
    for chunk in packer.contents(top.root, below):
        file.write_large(bytes(chunk))
    for name, data in sorted(top.beside.items()):
        packer.blank(below + name, _status(0o100600, len(data), when), data)


def _status(mode: int, size: int, when: int) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, 0, 0, size, when, when, when))


def _dated(found: os.stat_result, epoch: int) -> os.stat_result:
    return os.stat_result((*tuple(found)[:7], epoch, epoch, epoch), {"st_rdev": found.st_rdev})
