"""What is a URL, and what a git repository."""

import pytest

from engine.daemon.builder import urls


@pytest.mark.parametrize(
    ("text", "is_url", "is_git"),
    [
        ("http://x/y.tar", True, False),
        ("https://x/y.git", True, True),
        ("https://x/y.git#main:dir", True, True),
        ("https://x/y.github", True, False),
        ("git://x/y", False, True),
        ("git@github.com:x/y.git", False, True),
        ("github.com/x/y", False, True),
        ("ftp://x/y", False, False),
        ("HTTP://x/y", False, False),
        ("dir/file", False, False),
    ],
)
def test_texts_are_what_docker_takes_them_for(text: str, is_url: bool, is_git: bool) -> None:
    assert (urls.is_url(text), urls.is_git(text)) == (is_url, is_git)
