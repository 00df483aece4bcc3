"""The kinds of failure, open to every room; the API maps each kind to a status code in one place.

A kind says what the caller can do about it, never which room it came from. `str(error)` is the text a client reads.
"""


class EngineError(Exception):
    """The base of every failure that the engine raises on purpose; as it stands: the engine's own fault."""


class Invalid(EngineError):
    """The request is wrong in itself; the same call can never work."""


class Unauthorized(EngineError):
    """A registry refused the credentials."""


class Forbidden(EngineError):
    """The request is understood and not allowed."""


class NotFound(EngineError):
    """What the request names is not there."""


class Conflict(EngineError):
    """The present state does not allow the request; it may work later."""


class NotModified(EngineError):
    """The state asked for is the state already there."""


class NotBuilt(EngineError):
    """A part of the Engine API that this engine does not have yet, said in words."""


class Unavailable(EngineError):
    """Something the request needs is not there on this host now."""


class SystemFailure(EngineError):
    """The host refused or failed something that the engine needed."""


class CommandFailed(EngineError):
    """A command that the engine was to run for the caller has ended with a code other than 0."""

    def __init__(self, message: str, code: int = 1):
        super().__init__(message)
        self.code = code
