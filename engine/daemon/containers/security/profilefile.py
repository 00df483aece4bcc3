"""Reads the seccomp profile that the daemon's settings name for containers which name none.

The daemon's main thread reads it before the API answers; each later start of a container finds the same text, whatever
happened to the file, until the daemon is started again.
"""

import functools

from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.sandbox import capabilities, seccomp
from engine.settings.defaults import BUILTIN

UNCONFINED = "unconfined"
_LARGEST = 1 << 20


@functools.cache
def text(profile: str) -> str:
    """The text of the profile in this file; `builtin` and `unconfined` stand for themselves.

    Raises SystemFailure for a file that cannot be read, Invalid for one that is no profile; both in dockerd's words.
    """
    if profile in (BUILTIN, UNCONFINED):
        return profile
    try:
        with open(profile, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise SystemFailure(f"opening seccomp profile ({profile}) failed: {reasons.of(error)}") from error
    if len(data) > _LARGEST:
        raise Invalid(f"opening seccomp profile ({profile}) failed: it is larger than {_LARGEST} bytes")
    try:
        found = data.decode()
        seccomp.compile_text(found, capabilities.effective((), (), False))
    except (UnicodeDecodeError, Invalid) as error:
        raise Invalid(f"the seccomp profile {profile} cannot be used: {error}") from error
    return found
