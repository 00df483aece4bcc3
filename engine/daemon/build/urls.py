"""What docker takes for a URL, and what for a git repository.

Pure.
"""


def is_url(text: str) -> bool:
    """Whether the text is the URL of a file."""
    return text.startswith(("http://", "https://"))


def is_git(text: str) -> bool:
    """Whether the text names a git repository."""
    if is_url(text):
        return text.partition("#")[0].endswith(".git")
    return text.startswith(("git://", "git@", "github.com/", "ssh://"))
