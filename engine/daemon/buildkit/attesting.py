"""What is attested of a build's result: the documents that go with it, as its client has asked for them.

Runs on the thread of Control/Solve. The history gets the whole provenance of every build, whatever is asked for.
"""

import time
from collections.abc import Sequence

from engine.daemon.buildkit import recording
from engine.daemon.buildkit.attestwishes import Attests
from engine.daemon.buildkit.exporters.intoto import SPDX, Attestation
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.outcome import Outcome, Tree
from engine.daemon.buildkit.provenance import predicate
from engine.daemon.buildkit.provenance.predicate import Asked, Facts
from engine.daemon.images import image as documents
from engine.daemon.images.content import digest_of
from engine.daemon.parts import DaemonParts
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # few clients ask for a bill of materials, and few frontends bring one
    from engine.daemon.buildkit import brought
    from engine.daemon.buildkit.sbom import scanning
else:
    brought = late("engine.daemon.buildkit.brought")
    scanning = late("engine.daemon.buildkit.sbom.scanning")


class Attesting:
    """What attests the result of one build."""

    def __init__(self, engine: DaemonParts, job: Job, wanted: Attests) -> None:
        """Finds the generator of a bill of materials: one that is not there ends the build before it begins.

        Raises EngineErrors.
        """
        self._job, self._provenance, self._layer_root = job, wanted.provenance, engine.images.layer_root
        self._scanner = None if wanted.generator is None else scanning.Scanner(engine, job, wanted.generator)

    def attested(self, outcome: Outcome) -> list[Sequence[Attestation]]:
        """What is said of each tree: by its frontend, bills of materials, and provenance, which the history gets too.

        Raises EngineErrors: what the generator ends with.
        """
        found: list[Sequence[Attestation]] = [() for _ in outcome.trees]
        if any(tree.brought for tree in outcome.trees):
            found = [brought.read(self._layer_root, tree.brought) for tree in outcome.trees]
        # As with BuildKit, a bill that the frontend brings stands in the place of a generator's.
        if self._scanner is not None and not any(each.kind == SPDX for one in found for each in one):
            found = [(*one, *more) for one, more in zip(found, self._scanner.scan(outcome), strict=True)]
        found = [sorted(one, key=lambda each: not each.core) for one in found]
        finished, asked = time.time_ns(), self._provenance
        for place, tree in enumerate(outcome.trees):
            facts = _facts(self._job, tree, finished)
            said = documents.dump(predicate.document(Asked(), facts))
            recording.attest(self._job.ref, Asked().kind, said, tree.platform_id if outcome.several else "")
            if asked is not None:
                document = documents.dump(predicate.document(asked, facts))
                found[place] = (*found[place], Attestation(asked.kind, document, asked.name, asked.inline_only))
        return found


def _facts(job: Job, tree: Tree, finished: int) -> Facts:
    frontend, options = job.captured.request()
    options = options or job.asked["FrontendAttrs"]
    id = digest_of(f"{job.ref} {job.captured.started_ns}".encode()).partition(":")[2][:32]
    return Facts(frontend, options, id, job.captured, tree.platform, finished, tree.described())
