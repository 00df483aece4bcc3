"""Files of a web server with the real buildx: ADD of a URL, a named context, and the context itself."""

import gzip
import hashlib
import re
from collections.abc import Callable

import pytest

from tests.clients.building import Building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness import web
from tests.harness.contexts import Member, archive

DATA = b"of the server\n"
SUM = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
OTHER = f"sha256:{'0' * 64}"
MODIFIED = {"Last-Modified": "Sun, 09 Sep 2001 01:46:40 GMT"}
CONTEXT = archive(
    Member("Dockerfile", "FROM busybox\nCOPY file /c\nRUN cat /c\n"),
    Member("file", "of the archive\n"),
    Member("sub/Dockerfile", "FROM busybox\nRUN echo of a directory\n"),
)
PAGES: web.Pages = {
    "/d/file.txt": (200, MODIFIED, DATA),
    "/moved": (302, {"Location": "/d/file.txt"}, b""),
    "/gone": (410, {}, b""),
    "/context.tar.gz": (200, {"Content-Type": "application/gzip"}, gzip.compress(CONTEXT)),
    "/context.tar": (200, {"Content-Type": "application/octet-stream"}, CONTEXT),
    "/Dockerfile": (200, {"Content-Type": "text/plain"}, b"FROM busybox\nRUN echo of a text\n"),
}

ALLOWED = ("--allow", "network.host")  # the pages are on the host's loopback interface

Served = Callable[[web.Pages], str]


def test_a_file_is_added_whose_checksum_is_right(buildx: Building, docker: Client, served: Served, tag: str) -> None:
    """It has its name, its time, and the mode 600, unless ADD says otherwise."""
    url = served(PAGES)
    buildx.write(
        f"ADD --checksum={SUM} {url}/d/file.txt /x/",
        f"ADD --checksum={SUM} --chown=7:8 --chmod=640 {url}/moved /y",
        "RUN stat -c '%n %a %u:%g %Y' /x/file.txt /y",
    )
    output = told(buildx("build", *ALLOWED, "-t", tag, "."))
    assert re.findall(r"^#\d+ \d+\.\d+ (/.*)$", output, re.MULTILINE) == [
        "/x/file.txt 600 0:0 1000000000",
        "/y 640 7:8 1000000000",
    ]
    assert said(docker("run", "--rm", tag, "cat", "/x/file.txt", "/y")).encode() == DATA * 2


def test_a_file_that_is_another_is_refused_with_its_line(buildx: Building, served: Served) -> None:
    """Also where the cache has the file already."""
    url = served(PAGES)
    buildx.write(f"ADD --checksum={SUM} {url}/d/file.txt /x")
    told(buildx("build", *ALLOWED, "."))
    buildx.write(f"ADD --checksum={OTHER} {url}/d/file.txt /x")
    output = told(buildx("build", *ALLOWED, "."), 1)
    assert f"digest mismatch {SUM}: {OTHER}" in output, output
    assert re.search(r"^ +3 \| >>> ADD --checksum", output, re.MULTILINE), output
    changed = served({"/d/file.txt": (200, {}, b"another\n")})
    buildx.write(f"ADD --checksum={SUM} {changed}/d/file.txt /x")
    assert "digest mismatch sha256:" in told(buildx("build", *ALLOWED, "."), 1)


def test_a_file_that_is_not_there_is_told(buildx: Building, served: Served) -> None:
    url = served(PAGES)
    for path, words in (("/none", "404"), ("/gone", "410")):
        buildx.write(f"ADD {url}{path} /x")
        output = told(buildx("build", *ALLOWED, "."), 1)
        assert f"{url}{path}" in output and words in output, output


def test_what_has_changed_on_the_server_is_added_anew(buildx: Building, served: Served) -> None:
    pages: web.Pages = {"/file": (200, {"ETag": '"1"'}, b"one\n")}
    url = served(pages)
    buildx.write(f"ADD {url}/file /x", "RUN cat /x")
    assert re.search(r"^#\d+ \d+\.\d+ one$", told(buildx("build", *ALLOWED, ".")), re.MULTILINE)
    again = told(buildx("build", *ALLOWED, "."))
    assert re.search(r"^#(\d+) \[\d/\d\] RUN cat /x\n#\1 CACHED$", again, re.MULTILINE), again
    pages["/file"] = (200, {"ETag": '"2"'}, b"two\n")
    assert re.search(r"^#\d+ \d+\.\d+ two$", told(buildx("build", *ALLOWED, ".")), re.MULTILINE)


def test_a_file_is_a_context_by_name(buildx: Building, served: Served) -> None:
    """A tree of one file, which is called `context` and is not unpacked, as with BuildKit."""
    url = served(PAGES)
    run = "RUN --mount=from=tar,target=/m ls /c; cat /c/context; sha256sum /m/context"
    buildx.write("COPY --from=text . /c", run)
    options = ("--build-context", f"text={url}/d/file.txt", "--build-context", f"tar={url}/context.tar")
    output = told(buildx("buildx", "build", *ALLOWED, *options, "."))
    whole = f"{hashlib.sha256(CONTEXT).hexdigest()}  /m/context"
    assert re.findall(r"^#\d+ \d+\.\d+ (.+)$", output, re.MULTILINE) == ["context", "of the server", whole], output
    words = told(buildx("buildx", "build", *ALLOWED, *options, "--build-context", f"text={url}/none", "."), 1)
    assert f"{url}/none" in words and "404" in words, words


@pytest.mark.parametrize("path", ["/context.tar.gz", "/context.tar"])
def test_an_archive_is_the_context(buildx: Building, served: Served, path: str) -> None:
    url = served(PAGES)
    output = told(buildx("build", *ALLOWED, "--no-cache", f"{url}{path}"))
    assert re.search(r"^#\d+ \d+\.\d+ of the archive$", output, re.MULTILINE), output
    output = told(buildx("build", *ALLOWED, "--no-cache", "-f", "sub/Dockerfile", f"{url}{path}"))
    assert re.search(r"^#\d+ \d+\.\d+ of a directory$", output, re.MULTILINE), output


def test_a_text_is_a_dockerfile_without_a_context(buildx: Building, served: Served) -> None:
    output = told(buildx("build", *ALLOWED, f"{served(PAGES)}/Dockerfile"))
    assert re.search(r"^#\d+ \d+\.\d+ of a text$", output, re.MULTILINE), output


def test_a_context_that_is_not_there_is_told(buildx: Building, served: Served) -> None:
    url = served(PAGES)
    output = told(buildx("build", *ALLOWED, f"{url}/none"), 1)
    assert f"{url}/none" in output and "404" in output, output


def test_the_hosts_loopback_interface_is_out_of_reach_unless_the_client_allows_it(
    buildx: Building, served: Served
) -> None:
    """For the Dockerfile, and for a context, which a frontend may name as well as the client."""
    url = served(PAGES)
    buildx.write(f"ADD {url}/d/file.txt /x")
    for words in ((".",), (f"{url}/Dockerfile",), (".", "--build-context", f"busybox={url}/context.tar")):
        output = told(buildx("buildx", "build", *words), 1)
        assert "reaches the host's loopback interface with the entitlement network.host only" in output, output
