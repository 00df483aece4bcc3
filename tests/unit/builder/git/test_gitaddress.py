"""Addresses of git repositories: which texts are some, and what they say; the cases are those of BuildKit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.builder.git import gitaddress
from engine.errors import Invalid
from engine.redact import redacted

HUB = "https://github.com/moby/buildkit.git"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.com/foo.git", {"remote": "https://example.com/foo.git", "scheme": "https"}),
        ("https://example.com/foo.git#deadbeef", {"ref": "deadbeef"}),
        ("https://example.com/foo.git#release/1.2", {"ref": "release/1.2"}),
        ("git://example.com/foo", {"remote": "git://example.com/foo", "scheme": "git"}),
        ("github.com/moby/buildkit", {"remote": "https://github.com/moby/buildkit"}),
        ("github.com/moby/buildkit#master", {"ref": "master"}),
        ("https://foo:bar@github.com/a.git", {"host": "github.com", "shown": "https://xxxxx:xxxxx@github.com/a.git"}),
        ("git@github.com:moby/buildkit", {"remote": "git@github.com:moby/buildkit", "scheme": "ssh"}),
        ("git@host.org:a/b.git#x:y", {"remote": "git@host.org:a/b.git", "ref": "x", "subdir": "y"}),
        ("ssh://git@host.org/a", {"remote": "ssh://git@host.org/a", "scheme": "ssh"}),
        ("https://github.com/foo/bar.git#baz/qux:quux/quuz", {"ref": "baz/qux", "subdir": "quux/quuz"}),
        ("https://github.com/docker/docker.git#:myfolder", {"ref": "", "subdir": "myfolder"}),
        ("https://github.com/docker/docker.git#:/../../a/../b/", {"subdir": "b"}),
        (f"{HUB}?ref=v1.0.0&subdir=/subdir", {"ref": "v1.0.0", "subdir": "subdir"}),
        (f"{HUB}?subdir=/subdir#v1.0.0", {"ref": "v1.0.0", "subdir": "subdir"}),
        (f"{HUB}?tag=v1.0.0", {"ref": "refs/tags/v1.0.0"}),
        (f"{HUB}?branch=v1.0", {"ref": "refs/heads/v1.0"}),
        (f"{HUB}?checksum=deadbeef", {"checksum": "deadbeef"}),
        (f"{HUB}?commit=deadbeef#v1", {"checksum": "deadbeef", "ref": "v1"}),
        (f"{HUB}?keep-git-dir=true", {"keep_git_dir": True}),
        (f"{HUB}?keep-git-dir", {"keep_git_dir": True}),
        (f"{HUB}?submodules=false", {"submodules": False, "keep_git_dir": None}),
        (f"{HUB}?mtime=commit", {"commit_times": True}),
        (f"{HUB}?mtime=checkout", {"commit_times": False}),
        (f"{HUB}?fetch-by-commit&checksum={'a' * 40}", {"by_commit": True}),
    ],
)
def test_an_address(text: str, expected: dict) -> None:
    found = gitaddress.parse(text)
    assert found is not None
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/",
        "https://example.com/foo",
        "https://example.com/foo.git/",
        "https://example.com/foo.git.bar",
        "custom.xyz/moby/buildkit.git",
        "https://github.com/moby/buildkit",
        "./.git",
        "../a.git",
        ".git",
        "a",
        "file:///etc/passwd",
        "ext::sh -c touch% /tmp/pwned",
        "ext://a.git",
        "-u@host:a",
        "git@-oProxyCommand=x:a",
    ],
)
def test_no_address(text: str) -> None:
    assert gitaddress.parse(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{HUB}?invalid=123", 'unexpected query "invalid"'),
        (f"{HUB}?mtime=invalid", "invalid mtime value"),
        (f"{HUB}?submodules=maybe", "invalid submodules value"),
        (f"{HUB}?ref=a#b", "ref conflicts"),
        (f"{HUB}?tag=a&branch=b", "branch conflicts with tag"),
        (f"{HUB}?ref=a&ref=b", 'query "ref" has multiple values'),
        (f"{HUB}?ref=", 'query "ref" has no value'),
        (f"{HUB}?checksum=no", "expected hex commit hash"),
        (f"{HUB}?fetch-by-commit&checksum=abc", "full commit SHA"),
        (f"{HUB}#--upload-pack=touch /tmp/x", "invalid git ref"),
        (f"{HUB}#a..b", "invalid git ref"),
        (f"{HUB}#a b", "invalid git ref"),
        (f"{HUB}#refs/heads/*", "invalid git ref"),
        ("https://-oProxyCommand=x/a.git", "invalid git address"),
        ("ssh://-oProxyCommand=x/a", "invalid git address"),
        ("https:///a.git", "invalid git address"),
        ("https://host/a b.git", "invalid git address"),
        ("https://host/a\n.git", "invalid git address"),
    ],
)
def test_a_wrong_address(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words.replace("?", r"\?")):
        gitaddress.parse(text)


PIECES = st.sampled_from(
    [
        "https://",
        "git://",
        "ssh://",
        "git@",
        "host",
        ":",
        "/",
        "-",
        "a.git",
        "#",
        "?",
        "ref=",
        "&",
        "..",
        "x",
        "%2e",
        "\n",
        " ",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40))
def test_nothing_that_git_is_given_is_an_option_or_leads_out(text: str) -> None:
    try:
        found = gitaddress.parse(text)
    except Invalid:
        return
    if found is None:
        return
    for word in (found.remote, found.host, found.ref, found.checksum):
        assert not word.startswith("-")
        assert not set(word) & set("\n\0 ")
    assert found.remote.startswith(("https://", "http://", "git://", "ssh://")) or "@" in found.remote
    assert ".." not in found.subdir.split("/")
    assert not found.subdir.startswith("/")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://name:secret@host/a.git", "https://xxxxx:xxxxx@host/a.git"),
        ("https://secret@host/a.git", "https://xxxxx@host/a.git"),
        ("https://a:b@c:secret@host/a.git", "https://xxxxx:xxxxx@host/a.git"),
        ("https://host/a.git", "https://host/a.git"),
        ("ssh://git@host/a", "ssh://git@host/a"),
        ("git://name:secret@host/a", "git://xxxxx:xxxxx@host/a"),
        ("git@host:a", "git@host:a"),
    ],
)
def test_what_is_shown_of_an_address_has_no_credentials(text: str, expected: str) -> None:
    found = gitaddress.parse(text)
    assert found is not None
    assert found.shown == expected
    assert "secret" not in found.remote + repr(found)
    assert redacted(text) == expected
