"""The exception classes of the engine's failures, open to every package; `api.dispatch` maps each class to an HTTP
status.

A class says what the caller can do about the failure, never which package raised it. `str(error)` is the text that a
client reads.
"""

from engine.redact import redacted


class EngineError(Exception):
    """The base of every failure that the engine raises on purpose. Raised itself, it means a fault of
    the engine's own. The text of each has no credentials of a URL.
    """

    def __str__(self) -> str:
        return redacted(super().__str__())


class Invalid(EngineError):
    """The request is wrong in itself; the same call can never work."""


class Unauthorized(EngineError):
    """A registry refused the credentials."""


class Forbidden(EngineError):
    """The request is understood and not allowed."""


class NotFound(EngineError):
    """The thing that the request names does not exist."""


class Conflict(EngineError):
    """The present state does not allow the request; it may work later."""


class NotModified(EngineError):
    """The state asked for is the state already there."""


class NotBuilt(EngineError):
    """The request needs a part of the Engine API that this engine does not have; the text names it."""


class Unavailable(EngineError):
    """Something that the request needs is missing on this host now."""


class SystemFailure(EngineError):
    """The host refused an operation that the engine needed, or failed in it."""


class CommandFailed(EngineError):
    """A command that the engine was to run for the caller has ended with an exit code other than 0, its `code`.

    command: its words
    """

    def __init__(self, message: str, code: int = 1, command: str = ""):
        super().__init__(message)
        self.code = code
        self.command = command
