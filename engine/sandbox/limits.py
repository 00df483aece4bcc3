"""Sets the limits that a process itself has, not its cgroup: resource limits (rlimits) and the OOM score.

Runs in init. A host without CAP_SYS_RESOURCE refuses to raise a hard limit or to lower the score. Then as much as
possible is set, and the caller gets the words to warn with.
"""

import resource
from collections.abc import Iterable

from engine.errors import Invalid
from engine.sandbox.spec import Rlimit

_PREFIX = "RLIMIT_"
_REFUSED = "error setting rlimits for ready process: error setting rlimit type"  # runc's words
_FEW_FILES = 64
NAMES: dict[str, int] = {
    name.removeprefix(_PREFIX).lower(): getattr(resource, name) for name in dir(resource) if name.startswith(_PREFIX)
}
"""The limits by docker's names."""


def hinders(limit: Rlimit) -> bool:
    """Whether init itself could not go on under this limit, because too few files may be open."""
    return limit.name == "nofile" and 0 <= limit.hard < _FEW_FILES


def apply_rlimits(rlimits: Iterable[Rlimit]) -> list[str]:
    """Set the limits; returns a warning for each that had to be cut to the present hard limit.

    Raises Invalid (`wrong rlimit value: RLIMIT_NOFOO`), OSError.
    """
    warnings = []
    for limit in rlimits:
        if limit.name not in NAMES:
            raise Invalid(f"wrong rlimit value: {_PREFIX}{limit.name.upper()}")
        number = NAMES[limit.name]
        try:
            resource.setrlimit(number, (limit.soft, limit.hard))
        except ValueError:  # what the resource module makes of EPERM and of EINVAL
            _, ceiling = resource.getrlimit(number)
            soft = min(_height(limit.soft), _height(ceiling))
            crossed = _height(limit.soft) > _height(limit.hard)
            if crossed or _height(limit.hard) <= _height(ceiling):
                why = "invalid argument" if crossed else "operation not permitted"
                raise Invalid(f"{_REFUSED} {number}: {why}") from None
            resource.setrlimit(number, (ceiling if soft == _height(ceiling) else int(soft), ceiling))
            warnings.append(f"ulimit {limit.name}: this host does not allow more than {ceiling}")
    return warnings


def _height(value: int) -> float:
    """A limit as a number that compares; -1 is unlimited."""
    return float("inf") if value < 0 else value


def own_oom_score() -> int:
    """The oom_score_adj of this process."""
    with open("/proc/self/oom_score_adj", "rb", buffering=0) as file:
        return int(file.read(16))


def apply_oom_score(score: int) -> list[str]:
    """Set oom_score_adj of this process (proc(5)); returns a warning where the host does not allow lowering it."""
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"%d" % score)
    except PermissionError:
        return [f"oom score adjustment {score}: this host does not allow it"]
    return []
