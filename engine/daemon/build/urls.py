"""Tests whether the source of an ADD, or a remote build context, is a URL or a git repository, by docker's rules.

Pure.
"""


def is_url(text: str) -> bool:
    """Whether the text is the URL of a file (http or https)."""
    return text.startswith(("http://", "https://"))


def is_git(text: str) -> bool:
    """Whether the text names a git repository."""
    if is_url(text):
        return text.partition("#")[0].endswith(".git")
    return text.startswith(("git://", "git@", "github.com/", "ssh://"))
