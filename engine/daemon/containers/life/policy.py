"""Restart policies: whether a container that has ended is to run again, and how long to wait before.

Pure; used by whoever records an end. The rules are dockerd's, to the letter, also where they surprise.
"""

from engine.daemon.jsontext import Object

FIRST_DELAY = 0.1
LONGEST_DELAY = 60.0
_SETTLED_SECONDS = 10.0  # a run of this length was no failure to start: the waiting begins anew


def runs_again(policy: Object, exit_code: int, *, by_hand: bool, count: int) -> bool:
    """Whether the policy (a RestartPolicy of the API) wants another run.

    by_hand: somebody has asked for an end, or sent a signal, since the last start by hand; count: the tries so far
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
    """Seconds to wait for the next run; `before` is what was waited for this one, 0 for a start by hand."""
    if not before or ran_seconds >= _SETTLED_SECONDS:
        return FIRST_DELAY
    return min(before * 2, LONGEST_DELAY)
