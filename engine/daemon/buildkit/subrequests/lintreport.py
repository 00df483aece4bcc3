"""The answer to `frontend.lint` (docker build --check): what is wrong in a Dockerfile, and whether it can be built.

Pure. The form is BuildKit's (frontend/subrequests/lint).
"""

from engine.daemon.buildkit.lint import checkoptions, lintrules
from engine.daemon.buildkit.lint.checkoptions import CheckOptions
from engine.daemon.buildkit.lint.lintrules import Warned
from engine.daemon.buildkit.lint.review import Review
from engine.daemon.buildkit.subrequests.excerpts import excerpt, ranges
from engine.daemon.buildkit.subrequests.source import Answer, Source, dumped
from engine.daemon.jsontext import Object
from engine.errors import Invalid

VERSION = "1.0.0"
_ARGUMENT = "BUILDKIT_DOCKERFILE_CHECK"


def options(review: Review) -> CheckOptions:
    """Which rules are checked: what the build argument says, or else the Dockerfile. Raises Invalid."""
    given = review.around.args.get(_ARGUMENT)
    if given is not None:
        try:
            return checkoptions.parse(given)
        except Invalid as error:
            raise Invalid(f"failed to parse build-arg:{_ARGUMENT}: {error}") from error
    written = review.dockerfile.directives.get("check", "") if review.dockerfile else ""
    try:
        return checkoptions.parse(written.partition(" ")[0])
    except Invalid as error:
        raise Invalid(f"failed to parse check options: {error}") from error


def violation(warned: list[Warned], chosen: CheckOptions) -> str:
    """Why the build fails: warnings are errors, and there are some. Empty where it does not."""
    if not chosen.error or not warned:
        return ""
    names = dict.fromkeys(one.rule.name for one in warned)
    return f"lint violation found for rules: {', '.join(names)}"


def report(review: Review, source: Source) -> Answer:
    """The answer. Raises Invalid for check options that are none."""
    chosen = options(review)
    warned = lintrules.warnings(review, chosen)
    document: Object = {
        "warnings": [_warning(one) for one in warned] or None,
        "sources": [{"filename": source.name, "data": source.encoded, "language": "Dockerfile"}],
    }
    fault = review.fault
    if fault is not None:
        document["buildError"] = {
            "message": fault.reason,
            "location": {"ranges": ranges(fault.first, fault.last)},
        }
    elif text := violation(warned, chosen):
        document["buildError"] = {"message": text, "location": {}}
    return {
        "result.json": dumped(document),
        "result.txt": _text(warned, source).encode("utf-8", "replace"),
        "result.statuscode": b"1" if warned or "buildError" in document else b"0",
        "version": VERSION.encode(),
    }


def _warning(one: Warned) -> Object:
    page = {"url": one.rule.url} if one.rule.url else {}
    return {
        "ruleName": one.rule.name,
        "description": one.rule.description,
        **page,
        "detail": one.detail,
        "location": {"ranges": ranges(one.first, one.last)},
    }


def _text(warned: list[Warned], source: Source) -> str:
    """The warnings by line, each with its lines."""
    parts: list[str] = []
    for one in sorted(warned, key=lambda one: one.first):
        page = f" - {one.rule.url}" if one.rule.url else ""
        lines = excerpt(source.name, source.data, one.first, one.last)
        parts.append(f"\nWARNING: {one.rule.name}{page}\n{one.detail}\n{lines}")
    return "".join(parts)
