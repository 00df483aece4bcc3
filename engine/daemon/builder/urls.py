"""Tests whether the source of an ADD, or a remote build context, is a URL or a git repository, by docker's rules.

Pure.
"""

from engine.daemon.builder.git import gitaddress
from engine.daemon.builder.git.gitaddress import GitAddress
from engine.errors import Invalid


def is_url(text: str) -> bool:
    """Whether the text is the URL of a file (http or https)."""
    return text.startswith(("http://", "https://"))


def is_git(text: str) -> bool:
    """Whether the text names a git repository; one whose address is wrong is one too."""
    try:
        return repository(text) is not None
    except Invalid:
        return True


def repository(text: str) -> GitAddress | None:
    """The address of a git repository, None for any other text. Raises Invalid for one that is wrong."""
    return gitaddress.parse(text)
