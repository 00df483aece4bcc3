"""The words of a failure, as BuildKit's clients know them.

Pure.
"""

import posixpath
from collections.abc import Iterator

from engine.daemon.builder.copying.sources import AbsentSource
from engine.daemon.dockerfile.gotext import quoted
from engine.daemon.dockerfile.statements import Misplaced
from engine.errors import CommandFailed, EngineError


def words_of(error: BaseException) -> str:
    """An error in BuildKit's words, where it has some of its own."""
    if isinstance(error, CommandFailed):
        return f'process "{error.command}" did not complete successfully: exit code: {error.code}'
    if isinstance(error, Misplaced):
        return error.reason
    if isinstance(error, AbsentSource):
        path = posixpath.join("/", error.path)
        return f"failed to compute cache key: failed to calculate checksum: {quoted(path)}: not found"
    return str(error) if isinstance(error, EngineError) else "internal error"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it was raised from, each once: one that several threads raise again may be its own cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__
