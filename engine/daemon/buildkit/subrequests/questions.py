"""The questions that the Dockerfile frontend answers: one table, which also answers `frontend.subrequests.describe`.

Pure. The form is BuildKit's (frontend/subrequests).
"""

from collections.abc import Callable

from engine.daemon.buildkit.lint.review import Review
from engine.daemon.buildkit.subrequests import lintreport, outline, targetlist
from engine.daemon.buildkit.subrequests.columns import columns
from engine.daemon.buildkit.subrequests.source import Answer, Source, dumped
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import NotBuilt

LINT = "frontend.lint"
_VERSION = "1.0.0"
_RPC = "rpc"

Reviewed = Callable[[bool], Review]
"""Reads the Dockerfile with the client's options: all of its stages, or those that the target needs."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question. options: that it takes, with what they are; answers: the metadata that it is answered with"""

    version: str
    description: str
    answer: Callable[[Source, Reviewed, str], Answer]
    options: tuple[tuple[str, str], ...] = ()
    answers: tuple[str, ...] = ("result.json", "result.txt")
    listed: bool = True


def answered(name: str, source: Source, review: Reviewed, target: str) -> Answer:
    """The answer to the question of that name. target: the stage that the client asks about, empty for the last one.

    Raises NotBuilt for a question that is none of these, Misplaced, Invalid.
    """
    if name not in TABLE:
        raise NotBuilt(f"unsupported request {name}")
    return TABLE[name].answer(source, review, target)


def _describe(_source: Source, _review: Reviewed, _target: str) -> Answer:
    listed = {name: one for name, one in TABLE.items() if one.listed}
    rows = [(name.removeprefix("frontend."), one.version, one.description) for name, one in listed.items()]
    return {
        "result.json": dumped([_listed(name, one) for name, one in listed.items()]),
        "result.txt": columns([("NAME", "VERSION", "DESCRIPTION"), *rows], 1).encode(),
        "version": _VERSION.encode(),
    }


def _listed(name: str, one: Request) -> Object:
    return {
        "name": name,
        "version": one.version,
        "type": _RPC,
        "description": one.description,
        "opts": [{"name": option, "description": text} for option, text in one.options],
        "inputs": None,
        "metadata": [{"name": key, "description": ""} for key in one.answers],
        "refs": None,
    }


TABLE = {
    "frontend.outline": Request(
        outline.VERSION,
        "List all parameters current build target supports",
        lambda source, review, _: outline.report(review(False), source),
        options=(("target", "Target build stage"),),
    ),
    "frontend.targets": Request(
        targetlist.VERSION,
        "List all targets current build supports",
        lambda source, _review, _target: targetlist.report(source),
    ),
    "frontend.subrequests.describe": Request(_VERSION, "List available subrequest types", _describe),
    LINT: Request(
        lintreport.VERSION,
        "Lint a Dockerfile",
        # All stages are checked where no target is named.
        lambda source, review, target: lintreport.report(review(not target), source),
        answers=("result.json", "result.txt", "result.statuscode"),
        listed=False,  # as with BuildKit
    ),
}
"""All questions, by the names that clients give them."""
