"""ADD of a URL, and a build's context by its URL, from a web server on the daemon's loopback."""

import gzip
import hashlib
import re
from collections.abc import Iterator

import pytest

from tests.api.test_requestbuild import ask_with, image
from tests.harness import web
from tests.harness.contexts import Member, archive, build, tree
from tests.harness.daemon import Daemon

BODY = b"downloaded"
SUM = "sha256:" + hashlib.sha256(BODY).hexdigest()
MODIFIED = {"Last-Modified": "Sun, 09 Sep 2001 01:46:40 GMT"}
CONTEXT = archive(Member("Dockerfile", "FROM scratch\nCOPY a /a"), Member("a", "remote"))
PAGES: web.Pages = {
    "/dir/file.bin": (200, MODIFIED, BODY),
    "/a.tar": (200, {"Content-Type": "application/x-tar"}, archive(Member("inside", "1"))),
    "/": (200, {"Content-Disposition": 'attachment; filename="../named.txt"'}, BODY),
    "/none/": (200, {}, BODY),
    "/moved": (302, {"Location": "/dir/file.bin"}, b""),
    "/round": (302, {"Location": "/round"}, b""),
    "/gone": (410, {}, b"  not any more \n"),
    "/short": (200, {"Content-Length": "100"}, BODY),
    "/ctx.tar.gz": (200, {"Content-Type": "application/gzip"}, gzip.compress(CONTEXT)),
    "/ctx": (200, {"Content-Type": "application/octet-stream"}, CONTEXT),
    "/Dockerfile": (200, {"Content-Type": "text/plain; charset=utf-8"}, b"FROM scratch\nLABEL remote=1\n"),
    "/plain": (200, {}, b"FROM scratch\nCOPY a /a\n"),
    "/empty": (200, {"Content-Type": "text/plain"}, b""),
    "/page": (200, {"Content-Type": "text/html"}, b"<html>"),
}


@pytest.fixture(scope="module")
def url(daemon: Daemon) -> Iterator[str]:
    """Where the pages are."""
    with web.serving(PAGES, daemon.namespaces.socket()) as place:
        yield place


def test_a_downloaded_file_has_its_name_its_time_and_mode_600(daemon: Daemon, url: str) -> None:
    words = [
        f"ADD {url}/dir/file.bin /x/",
        f"ADD {url}/dir/file.bin /y",
        f"ADD --chown=7:8 --chmod=755 --checksum={SUM} {url}/moved /z/",
        f"ADD {url}/a.tar {url}/ /t/",
        f"ADD --unpack=true {url}/a.tar /u/",
    ]
    made = build(daemon, "FROM scratch\n" + "\n".join(words))
    assert made.id, made
    assert tree(daemon, made.id, "x") == {"x": "d0755 0:0", "x/file.bin": "-0600 0:0 downloaded"}
    assert tree(daemon, made.id, "y") == {"y": "-0600 0:0 downloaded"}
    assert tree(daemon, made.id, "z") == {"z": "d0755 7:8", "z/moved": "-0755 7:8 downloaded"}
    assert set(tree(daemon, made.id, "u")) == {"u", "u/inside"}
    container = daemon.create(Image=made.id, Cmd=["x"])
    try:
        for path in ("/t/a.tar", "/t/named.txt"):
            assert daemon.request("HEAD", f"/containers/{container}/archive?path={path}").status == 200
        answer = daemon.request("GET", f"/containers/{container}/archive?path=/y")
    finally:
        daemon.remove(container)
    assert b"07346545400" in answer.body or int(answer.body[136:147], 8) == 1_000_000_000


def test_an_unchanged_download_is_cached_by_its_contents(daemon: Daemon, url: str) -> None:
    words = f"FROM scratch\nADD {url}/changing /c"
    PAGES["/changing"] = (200, {}, b"1")
    one = build(daemon, words)
    PAGES["/changing"] = (200, MODIFIED, b"1")
    assert build(daemon, words).id == one.id
    PAGES["/changing"] = (200, {}, b"2")
    assert build(daemon, words).id != one.id


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("@URL@/nope /x", "ADD failed: failed to GET @URL@/nope with status 404 Not Found: no such page"),
        ("@URL@/gone /x", "ADD failed: failed to GET @URL@/gone with status 410 Gone: not any more"),
        ("@URL@/none/ /x/", "ADD failed: cannot determine filename for source @URL@/none/"),
        ("@URL@/round /x", 'ADD failed: Get "@URL@/round": stopped after 10 redirects'),
        ("@URL@/short /x", "ADD failed: unexpected EOF"),
        (
            "http://127.0.0.1:1/x /x",
            'ADD failed: Get "http://127.0.0.1:1/x": dial tcp 127.0.0.1:1: connect: connection refused',
        ),
        (
            f"--checksum=sha256:{'0' * 64} @URL@/dir/file.bin /x",
            f"ADD failed: digest mismatch {SUM}: sha256:{'0' * 64}",
        ),
        (
            "--checksum=md5:1 @URL@/x /x",
            "ADD failed: invalid checksum 'md5:1': it must be sha256: and 64 hexadecimal digits",
        ),
        (
            "--keep-git-dir @URL@/dir/file.bin /x",
            "ADD failed: --keep-git-dir needs a git repository as its source",
        ),
        (
            "https://host.example/x.git?weather=fine /x",
            'ADD failed: unexpected query "weather"',
        ),
    ],
)
def test_what_cannot_be_downloaded_is_told(daemon: Daemon, url: str, words: str, error: str) -> None:
    made = build(daemon, "FROM scratch\nADD " + words.replace("@URL@", url))
    assert made.error == error.replace("@URL@", url)


def test_a_download_is_told_as_it_goes(daemon: Daemon, url: str) -> None:
    PAGES["/told.tar"] = (200, {}, archive(Member("Dockerfile", f"FROM scratch\nADD {url}/dir/file.bin /x\n")))
    lines = daemon.request("POST", f"/build?remote={url}/told.tar").lines
    size = len(PAGES["/told.tar"][2])
    told = [line for line in lines if line.get("id") == "Downloading context"]
    assert told[0]["status"] == f"{url}/told.tar" and told[0]["progressDetail"]["total"] == size
    assert {"status": "Downloading", "progressDetail": {"current": len(BODY), "total": len(BODY)}} in lines


def test_a_context_comes_by_the_url_of_an_archive(daemon: Daemon, url: str) -> None:
    for path in ("/ctx.tar.gz", "/ctx"):
        made = build(daemon, "", body=b"", remote=url + path)
        assert made.id, made
        assert tree(daemon, made.id, "a") == {"a": "-0644 0:0 remote"}


def test_the_url_of_a_text_is_a_dockerfile_without_files(daemon: Daemon, url: str) -> None:
    assert build(daemon, "", body=b"", remote=f"{url}/Dockerfile").id
    made = build(daemon, "", body=b"", remote=f"{url}/plain")
    assert re.search("file not found in build context", made.error)


@pytest.mark.parametrize(
    ("remote", "status", "error"),
    [
        (
            "@URL@/nope",
            404,
            "error downloading remote context @URL@/nope: "
            "failed to GET @URL@/nope with status 404 Not Found: no such page",
        ),
        ("@URL@/page", 500, 'error detecting content type for remote @URL@/page: unsupported Content-Type "text/html"'),
        ("@URL@/empty", 500, "error detecting content type for remote @URL@/empty: empty response"),
        ("nonsense", 500, "remoteURL (nonsense) could not be recognized as URL"),
        ("https://host.example/y.git#--upload-pack=x", 400, 'invalid git ref "--upload-pack=x"'),
    ],
)
def test_what_is_no_context_is_told(daemon: Daemon, url: str, remote: str, status: int, error: str) -> None:
    made = build(daemon, "", body=b"", remote=remote.replace("@URL@", url))
    assert (made.status, made.error) == (status, error.replace("@URL@", url))


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("first", ["a.tar", "{url}/a.tar"])
def test_a_file_and_a_download_with_the_same_bytes_are_two_operations(
    daemon: Daemon, url: str, version: str, first: str
) -> None:
    """The one is unpacked, the other is not; nor does the one's result serve for the other."""
    local = Member("a.tar", PAGES["/a.tar"][2], mode=0o600)
    found = {}
    for source in sorted({"a.tar", "{url}/a.tar"}, key=first.__ne__):
        text = f"FROM scratch\nLABEL of={first}{version}\nADD {source.format(url=url)} /x/\n"
        if version == "1":
            made = build(daemon, text, local).id
        else:
            made = image(ask_with(daemon, archive(Member("Dockerfile", text), local), networkmode="host"))
        found[source] = set(tree(daemon, made, "x"))
    assert found == {"a.tar": {"x", "x/inside"}, "{url}/a.tar": {"x", "x/a.tar"}}


def test_a_download_whose_url_names_no_file_has_a_name_with_buildkit(daemon: Daemon, url: str) -> None:
    """Whatever its header says; the classic builder asks for a name, or takes the header's."""
    text = f"FROM scratch\nADD {url}/ {url}/none/ /d/\n"
    made = image(ask_with(daemon, archive(Member("Dockerfile", text)), networkmode="host"))
    assert set(tree(daemon, made, "d")) == {"d", "d/__unnamed__", "d/none"}
    assert "cannot determine filename for source" in build(daemon, text).error
