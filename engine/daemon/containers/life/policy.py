"""Decide by the restart policy whether a container that has ended runs again, and how long to wait before.

Pure; used by the threads that record an end. The rules are exactly dockerd's, also where they surprise.
"""

from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.daemon.containers.shapes import RestartPolicy

FIRST_DELAY = 0.1
LONGEST_DELAY = 60.0
_SETTLED_SECONDS = 10.0  # a run of this length was no failure to start: the next delay is the first one again


def runs_again(policy: "RestartPolicy", exit_code: int, *, by_hand: bool, count: int) -> bool:
    """Whether the policy (a RestartPolicy of the API) wants another run.

    by_hand: a client has asked for an end, or sent a signal, since a client last started it; count: the tries so far
    """
    match policy["Name"]:
        case "always":
            return True
        case "unless-stopped":
            return not by_hand
        case "on-failure":
            most = policy["MaximumRetryCount"]
            return exit_code != 0 and (most == 0 or count < most)
    return False


def delay(before: float, ran_seconds: float) -> float:
    """Seconds to wait for the next run; `before` is what was waited for this one, 0 for a start by a client."""
    if not before or ran_seconds >= _SETTLED_SECONDS:
        return FIRST_DELAY
    return min(before * 2, LONGEST_DELAY)
