"""Rules on what the instructions of a stage mean: their variables, platforms, paths, ports, and what replaces what.

Pure. Each function yields the marks of one rule of the table in `lintrules`.
"""

import posixpath
import re
from collections.abc import Iterator

from engine.daemon.builder import urls
from engine.daemon.buildkit.lint.marks import Mark
from engine.daemon.buildkit.lint.review import Opened, Review, Seen, Undefined
from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.gotext import nearest, quoted
from engine.daemon.images import platform as platforms
from engine.daemon.images.reference import Reference
from engine.errors import Invalid

# Words that tell a secret where they are the whole name or its first or last word, and words that take it back.
_SECRET = re.compile(
    r"(?:_|\A)(?:apikey|auth|credential|credentials|key|password|pword|passwd|secret|token)(?:_|\Z)", re.IGNORECASE
)
_HARMLESS = re.compile(r"(?:_|\A)(?:public|file|version)(?:_|\Z)", re.IGNORECASE)
_ROOTS = (".", "/")
_EVERYTHING = ("*", "**", "**/*")
# So many variables that are not set are compared with those that are: this takes some tenths of a second at most.
_MOST_COMPARED = 50


def defaults(review: Review) -> Iterator[Mark]:
    """FROMs that name no image when the client gives no arguments."""
    for one, opening, name in review.by_default or ():
        try:
            Reference.parse(name)
        except Invalid:
            yield Mark(one, f"Default value for ARG {opening.image} results in empty or invalid base image name")


def undefined_in_from(review: Review) -> Iterator[Mark]:
    """Arguments in a FROM that nobody has declared."""
    wanted = [(opened, missing) for opened in review.opened for missing in opened.undefined]
    for at, (opened, missing) in enumerate(wanted):
        meant = _meant(missing, at)
        yield Mark(opened.instruction, f"FROM argument '{missing.name}' is not declared" + _asked(meant))


def undefined(review: Review) -> Iterator[Mark]:
    """Variables that are not set where they are used."""
    wanted = [(seen, missing) for seen in review.steps for missing in seen.undefined]
    for at, (seen, missing) in enumerate(wanted):
        meant = _meant(missing, at)
        yield Mark(seen.instruction, f"Usage of undefined variable '${missing.name}'" + _asked(meant and f"${meant}"))


def _meant(missing: Undefined, at: int) -> str:
    return nearest(missing.name, missing.known) if at < _MOST_COMPARED else ""


def _asked(meant: str) -> str:
    return f" (did you mean {meant}?)" if meant else ""


def redundant_platforms(review: Review) -> Iterator[Mark]:
    """FROM --platform=$TARGETPLATFORM, which is so anyway."""
    for opened in review.opened:
        if opened.used == {"TARGETPLATFORM"} and _written(opened) in ("$TARGETPLATFORM", "${TARGETPLATFORM}"):
            detail = (
                f"Setting platform to predefined {_written(opened)} in FROM is redundant as this is the default"
                " behavior"
            )
            yield Mark(opened.instruction, detail)


def _written(opened: Opened) -> str:
    return opened.opening.platform


def constant_platforms(review: Review) -> Iterator[Mark]:
    """FROM --platform=linux/amd64, unless the stage is named after it."""
    for opened in review.opened:
        if not opened.platform or "$" in _written(opened):
            continue
        try:
            platform = platforms.parse(opened.platform)
        except Invalid:
            continue
        if platform.os not in opened.opening.name and platform.architecture not in opened.opening.name:
            detail = f"FROM --platform flag should not use constant value {quoted(opened.platform)}"
            yield Mark(opened.instruction, detail)


def other_platforms(review: Review) -> Iterator[Mark]:
    """Base images of another platform than the build's."""
    for opened in review.opened:
        if opened.actual.split("/")[:2] != opened.expected.split("/")[:2]:
            detail = (
                f"Base image {opened.opening.image} was pulled with platform {quoted(opened.actual)}, expected"
                f" {quoted(opened.expected)} for current build"
            )
            yield Mark(opened.instruction, detail)


def relative_workdirs(review: Review) -> Iterator[Mark]:
    """The first WORKDIR of a stage where it is no absolute path."""
    for seen in review.steps:
        command = seen.command
        if isinstance(command, commands.Workdir) and not seen.anchored and not command.path.startswith("/"):
            detail = f"Relative workdir {quoted(command.path)} can have unexpected results if the base image changes"
            yield Mark(seen.instruction, detail)


def shell_forms(review: Review) -> Iterator[Mark]:
    """CMD and ENTRYPOINT as a text for a shell that nobody has chosen."""
    for seen in review.steps:
        command = seen.command
        if isinstance(command, commands.Cmd | commands.Entrypoint) and command.argv is None and not seen.shell:
            detail = (
                f"JSON arguments recommended for {seen.instruction.written} to prevent unintended behavior related to"
                " OS signals"
            )
            yield Mark(seen.instruction, detail)


def replaced(review: Review) -> Iterator[Mark]:
    """A CMD, ENTRYPOINT or HEALTHCHECK that a later one of the stage replaces."""
    for seen in review.steps:
        if seen.earlier is not None:
            detail = (
                f"Multiple {seen.instruction.written} instructions should not be used in the same stage because only"
                " the last one will be used"
            )
            yield Mark(seen.earlier, detail)


def spaced_pairs(review: Review) -> Iterator[Mark]:
    """ENV and LABEL with a space in the place of `=`."""
    for seen in review.steps:
        word = seen.instruction.written
        if seen.instruction.spaced and seen.instruction.keyword in ("ENV", "LABEL"):
            detail = f'"{word} key=value" should be used instead of legacy "{word} key value" format'
            yield Mark(seen.instruction, detail)


def secrets(review: Review) -> Iterator[Mark]:
    """Variables and arguments whose names say that they are secrets."""
    for seen in review.steps:
        if isinstance(seen.command, commands.Env | commands.Arg):
            for name, _ in seen.command.pairs:
                if _SECRET.search(name) and not _HARMLESS.search(name):
                    keyword = seen.instruction.keyword
                    detail = f"Do not use ARG or ENV instructions for sensitive data ({keyword} {quoted(name)})"
                    yield Mark(seen.instruction, detail)


def ignored(review: Review) -> Iterator[Mark]:
    """Sources of COPY and ADD that the .dockerignore leaves out; one that takes something back is too hard to judge."""
    ignore = review.around.ignore
    if ignore is None or ignore.takes_back or not ignore.patterns:
        return
    everything = any(pattern in _EVERYTHING for pattern in ignore.patterns)
    for seen, verb, source in _sources(review):
        path = posixpath.normpath(source)
        if everything if path in _ROOTS else ignore.matches(path):
            detail = f"Attempting to {verb} file {quoted(path)} that is excluded by .dockerignore"
            yield Mark(seen.instruction, detail)


def _sources(review: Review) -> Iterator[tuple[Seen, str, str]]:
    """The sources that lie in the context, and what becomes of them."""
    for seen in review.steps:
        command = seen.command
        if isinstance(command, commands.Copy) and not command.from_:
            yield from ((seen, "Copy", source) for source in command.sources)
        elif isinstance(command, commands.Add):
            for source in command.sources:
                if not urls.is_url(source) and not urls.is_git(source):
                    yield seen, "Add", source


def _ports(review: Review) -> Iterator[tuple[Seen, str, str, str]]:
    """The ports of EXPOSE: each as written, what stands before the port, and its protocol."""
    for seen in review.steps:
        if isinstance(seen.command, commands.Expose):
            for port in seen.command.ports:
                before, _, own = port.rpartition(":")
                yield seen, port, before, own.partition("/")[2]


def protocol_casing(review: Review) -> Iterator[Mark]:
    """EXPOSE 80/TCP."""
    for seen, port, _, protocol in _ports(review):
        if protocol != protocol.lower():
            yield Mark(seen.instruction, f"Defined protocol '{port}' in EXPOSE instruction should be lowercase")


def port_mappings(review: Review) -> Iterator[Mark]:
    """EXPOSE 127.0.0.1:80:80, whose parts before the port mean nothing."""
    for seen, port, before, _ in _ports(review):
        if before:
            detail = f"EXPOSE instruction should not define an IP address or host-port mapping, found '{port}'"
            yield Mark(seen.instruction, detail)
