"""What is attested of a build's result, as its client asks by the frontend's options `attest:...`.

Runs on the thread of Control/Solve. The history gets the whole provenance of every build, whatever is asked for. A bill
of materials (SBOM) is made by a generator, which is refused until it is built.
"""

import csv
import time
from collections.abc import Mapping, Sequence

from engine.daemon.buildkit import recording
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.intoto import Attestation
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.outcome import Outcome, Tree
from engine.daemon.buildkit.provenance import predicate
from engine.daemon.buildkit.provenance.predicate import Asked, Facts
from engine.daemon.images import image as documents
from engine.daemon.images.content import digest_of
from engine.errors import Invalid, NotBuilt

_PREFIX, _PROVENANCE, _SBOM = "attest:", "provenance", "sbom"


def asked(options: Mapping[str, str]) -> Asked | None:
    """The provenance that is to go with the result, None for none. Raises Invalid, NotBuilt for other attestations."""
    found = None
    for key, value in sorted(options.items()):
        if not key.startswith(_PREFIX):
            continue
        kind = key.removeprefix(_PREFIX)
        pairs = _pairs(value)
        pairs.pop("type", "")  # which the option's name says already
        attrs = Attrs(f"the attestation {kind}", pairs)
        if kind == _SBOM and attrs.flag("disabled"):
            continue
        if kind != _PROVENANCE:
            raise NotBuilt(f"the attestation {kind} (--attest, --sbom) is not built in this engine")
        found = predicate.asked(attrs)
    return found


def _pairs(value: str) -> dict[str, str]:
    try:
        words = next(csv.reader([value]), [])
    except csv.Error as error:
        raise Invalid(f"invalid attestation: {error}") from error
    pairs = [word.partition("=") for word in words if word]
    return {key: text for key, _, text in pairs}


def attested(job: Job, outcome: Outcome, wanted: Asked | None) -> list[Sequence[Attestation]]:
    """What is said of each tree; the history is told, too."""
    finished = time.time_ns()
    several = outcome.several
    whole = Asked()
    found: list[Sequence[Attestation]] = []
    for tree in outcome.trees:
        facts = _facts(job, tree, finished)
        said = documents.dump(predicate.document(whole, facts))
        recording.attest(job.ref, whole.kind, said, str(tree.platform) if several else "")
        if wanted is None:
            found.append(())
        else:
            document = predicate.document(wanted, facts)
            found.append((Attestation(wanted.kind, document, wanted.name, wanted.inline_only),))
    return found


def _facts(job: Job, tree: Tree, finished: int) -> Facts:
    frontend, options = job.captured.request()
    options = options or job.asked["FrontendAttrs"]
    id = digest_of(f"{job.ref} {job.captured.started_ns}".encode()).partition(":")[2][:32]
    return Facts(frontend, options, id, job.captured, tree.platform, finished)
