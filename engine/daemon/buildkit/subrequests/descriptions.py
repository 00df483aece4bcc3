"""What the comments above a stage or an argument say of it.

Pure.
"""

from collections.abc import Iterable


def described(comments: Iterable[str], name: str) -> str:
    """The rest of the first comment that begins with the name; empty where there is none."""
    beginning = f"{name} "
    found = next((comment for comment in comments if name and comment.startswith(beginning)), beginning)
    return found.removeprefix(beginning)
