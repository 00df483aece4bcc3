"""Files of servers in graphs: what is asked again, what a file is called, and what the client sends along."""

import contextlib
import http.server
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.messages import session as messages
from engine.daemon.buildkit.serving import Call, Method
from engine.errors import EngineError
from engine.protocols import grpc
from tests.harness.daemon import Daemon
from tests.harness.frontends import UPGRADE, Frontend, dial, frontend
from tests.harness.graphs import Writer
from tests.harness.links import running

HOST_NETWORK = ["network.host"]


@dataclass
class Site:
    """A server. data, etag, fields: of its one file; asked: the heads of the requests; sent: bodies that were sent"""

    url: str = ""
    data: bytes = b"first\n"
    etag: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    conditions: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)
    sent: int = 0

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        self.asked.append({name.lower(): value for name, value in handler.headers.items()})
        known = [each.strip() for each in handler.headers.get("If-None-Match", "").split(",")]
        unchanged = self.conditions and bool(self.etag) and self.etag.removeprefix("W/") in known
        handler.send_response(304 if unchanged else 302 if handler.path == "/moved" else 200)
        if handler.path == "/moved":
            handler.send_header("Location", self.fields["Location"])
        else:
            for name, value in {"ETag": self.etag, **self.fields}.items():
                if value:
                    handler.send_header(name, value)
        body = b"" if unchanged or handler.path == "/moved" else self.data
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        with contextlib.suppress(OSError):  # the daemon does not read what it knows
            handler.wfile.write(body)
        self.sent += bool(body)


@contextlib.contextmanager
def serving(world: Any, host: str = "127.0.0.1") -> Iterator[Site]:
    site = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.answer(self)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer((host, 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = world.namespaces.socket()
    server.server_bind()
    server.server_activate()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    site.url = f"http://{host}:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site(daemon: Daemon, world: Any) -> Iterator[Site]:
    with serving(world) as served:
        yield served


def fetched(daemon: Daemon, url: str, attrs: dict[str, str] | None = None, **asked_for: Any) -> dict[str, bytes]:
    """The files of the source, by their names."""
    writer = Writer()
    source = writer.add({"source": {"identifier": url, "attrs": attrs or {}}})
    with frontend(daemon, Entitlements=HOST_NETWORK, **asked_for) as asked:
        return files(asked, asked.solve(writer.definition(source)))


def files(asked: Frontend, ref: str) -> dict[str, bytes]:
    return {name: asked.read(ref, f"/{name}") for name in asked.names(ref, "/")}


@pytest.mark.parametrize("weak", ["", "W/"])
def test_what_has_not_changed_is_not_sent_again(daemon: Daemon, site: Site, weak: str) -> None:
    """A file of the same ETag, the last or an earlier one, comes from the cache."""
    url, one, two = f"{site.url}/{uuid.uuid4().hex}/f", f'{weak}"one"', f'{weak}"two"'
    site.etag = one
    for _ in range(2):
        assert fetched(daemon, url) == {"f": b"first\n"}
    assert site.sent == 1 and "if-none-match" not in site.asked[0] and site.asked[1]["if-none-match"] == '"one"'
    site.etag, site.data = two, b"second\n"
    assert fetched(daemon, url) == {"f": b"second\n"}
    site.etag, site.data = one, b"first\n"
    assert fetched(daemon, url) == {"f": b"first\n"}
    assert site.sent == 2 and site.asked[-1]["if-none-match"] == '"one", "two"'


def test_a_file_without_an_etag_is_asked_for_each_time(daemon: Daemon, site: Site) -> None:
    url = f"{site.url}/{uuid.uuid4().hex}/f"
    assert fetched(daemon, url) == {"f": b"first\n"}
    site.data = b"second\n"
    assert fetched(daemon, url) == {"f": b"second\n"} and site.sent == 2


def test_a_server_that_knows_no_conditions(daemon: Daemon, site: Site) -> None:
    """What it sends with an ETag that is known need not be read."""
    url = f"{site.url}/{uuid.uuid4().hex}/f"
    site.etag, site.conditions = '"one"', False
    for _ in range(2):
        assert fetched(daemon, url) == {"f": b"first\n"}
    site.data = b"another, which nobody reads\n"
    assert fetched(daemon, url) == {"f": b"first\n"}


def test_a_new_daemon_knows_what_an_earlier_one_has_kept(own_daemon: Daemon, world: Any) -> None:
    with serving(world) as site:
        url, site.etag = f"{site.url}/f", '"one"'
        assert fetched(own_daemon, url) == {"f": b"first\n"}
        own_daemon.stop()
        own_daemon.start()
        site.data = b"another, which nobody reads\n"
        assert fetched(own_daemon, url) == {"f": b"first\n"}


@pytest.mark.parametrize(
    ("disposition", "path", "attrs", "name"),
    [
        ('attachment; filename="told.txt"', "/f", {}, "told.txt"),
        ('attachment; filename="told.txt"', "/f", {"http.filename": "mine"}, "mine"),
        ('attachment; filename="../../etc/passwd"', "/f", {}, "passwd"),
        ('attachment; filename=".."', "/f", {}, "f"),
        ('attachment; filename="d/"', "/f", {}, "f"),
        ("attachment", "/", {}, "download"),
    ],
)
def test_a_server_names_its_file(
    daemon: Daemon, site: Site, disposition: str, path: str, attrs: dict[str, str], name: str
) -> None:
    site.fields["Content-Disposition"] = disposition
    source = {"identifier": site.url + path, "attrs": attrs}
    assert list(fetched(daemon, site.url + path, attrs)) == [name]
    with frontend(daemon, Entitlements=HOST_NETWORK) as asked:
        assert asked("ResolveSourceMeta", {"Source": source})["HTTP"]["Filename"] == name


@contextlib.contextmanager
def giving(daemon: Daemon, secrets: dict[str, bytes]) -> Iterator[str]:
    """The id of a session with these secrets."""

    def give(call: Call[messages.GetSecretRequest, messages.GetSecretResponse]) -> None:
        name = call.one()["ID"]
        if name not in secrets:
            raise grpc.Failed(grpc.Status(grpc.NOT_FOUND, "not found"))
        call.send({"data": secrets[name]})

    id = uuid.uuid4().hex
    served = {
        methods.SECRETS + "GetSecret": Method(messages.GetSecretRequest, messages.GetSecretResponse, give),
    }
    with running(dial(daemon, "/session", f"{UPGRADE}X-Docker-Expose-Session-Uuid: {id}\r\n"), False, served):
        yield id


@pytest.mark.parametrize(
    ("attrs", "secrets", "expected"),
    [
        ({"http.authheadersecret": "mine"}, {"mine": b"Basic abc"}, "Basic abc"),
        ({}, {"HTTP_AUTH_HEADER_127.0.0.1": b"Basic host"}, "Basic host"),
        ({}, {"HTTP_AUTH_TOKEN_127.0.0.1": b"token"}, "Bearer token"),
        ({}, {"HTTP_AUTH_TOKEN_other": b"token"}, None),
    ],
)
def test_a_secret_of_the_client_opens_a_file(
    daemon: Daemon, site: Site, attrs: dict[str, str], secrets: dict[str, bytes], expected: str | None
) -> None:
    url = f"{site.url}/f"
    with giving(daemon, secrets) as id:
        assert fetched(daemon, url, attrs, Session=id) == {"f": b"first\n"}
        with frontend(daemon, Entitlements=HOST_NETWORK, Session=id) as asked:
            asked("ResolveSourceMeta", {"Source": {"identifier": url, "attrs": attrs}})
    assert [each.get("authorization") for each in site.asked] == [expected] * 2


@pytest.mark.parametrize(
    ("attrs", "secrets", "words"),
    [
        ({"http.authheadersecret": "mine"}, {}, "failed to retrieve HTTP auth secret mine: secret mine: not found"),
        ({"http.authheadersecret": "mine"}, {"mine": b"a\r\nHost: b"}, "has characters that a header cannot have"),
        ({"http.header.accept": "a\r\nHost: b"}, {}, "has characters that a header cannot have"),
        ({"http.header.host": "b"}, {}, "http.header.host of a download is not built"),
        ({"http.sig.pubkey": "b"}, {}, "http.sig.pubkey of a download is not built"),
    ],
)
def test_what_cannot_be_sent_along(
    daemon: Daemon, site: Site, attrs: dict[str, str], secrets: dict[str, bytes], words: str
) -> None:
    with giving(daemon, secrets) as id, pytest.raises(EngineError, match=words):
        fetched(daemon, f"{site.url}/f", attrs, Session=id)
    assert not site.asked


def test_fields_of_the_request(daemon: Daemon, site: Site) -> None:
    fetched(daemon, f"{site.url}/f", {"http.header.accept": "text/x", "http.header.User-Agent": "me"})
    assert (site.asked[0]["accept"], site.asked[0]["user-agent"]) == ("text/x", "me")


def test_a_secret_goes_to_no_other_host(daemon: Daemon, site: Site, world: Any) -> None:
    """As far as a redirection leads."""
    with serving(world, "127.0.0.2") as other, giving(daemon, {"mine": b"Basic abc"}) as id:
        site.fields["Location"] = f"{other.url}/f"
        assert fetched(daemon, f"{site.url}/moved", {"http.authheadersecret": "mine"}, Session=id)
        assert site.asked[0]["authorization"] == "Basic abc" and "authorization" not in other.asked[0]
