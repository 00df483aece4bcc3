"""tcp:// with --tlsverify: without a certificate of the authority no answer, with one as on the Unix socket."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.protocols import http2
from engine.protocols import http2frames as frames
from tests.harness.daemon import Daemon
from tests.harness.http import Connection

CERTIFICATES = Path(__file__).resolve().parents[1] / "unit" / "api" / "certificates"
PORT = 2376


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate, with its key, of an authority of its own."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    place = tmp_path_factory.mktemp("stranger")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=stranger"]
    command = ["openssl", "req", "-x509", *curve, "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    both = place / "both.pem"
    both.write_bytes((place / "certificate.pem").read_bytes() + (place / "key.pem").read_bytes())
    return both


@pytest.fixture(scope="module")
def tls_daemon(world, stranger: Path) -> Iterator[Daemon]:
    """A daemon that listens on TCP too, on a host whose list of authorities is the stranger alone."""
    files = {"--tlscacert": "ca.pem", "--tlscert": "server.pem", "--tlskey": "server.pem"}
    options = [part for name, file in files.items() for part in (name, str(CERTIFICATES / file))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(stranger))
        daemon = world.daemon(["-H", f"tcp://127.0.0.1:{PORT}", "--tlsverify", *options]).start()
    yield daemon
    daemon.stop()


def connection(daemon: Daemon, context: ssl.SSLContext) -> Connection:
    """A connection over TLS, used as one over the Unix socket is."""
    made = Connection.__new__(Connection)
    made.buffer = b""
    plain = daemon.namespaces.connect(PORT)
    plain.settimeout(30)
    made.socket = context.wrap_socket(plain, server_hostname="localhost")
    return made


def context(certificate: bool) -> ssl.SSLContext:
    """A client that trusts the authority, with or without a certificate of its own."""
    made = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))
    if certificate:
        made.load_cert_chain(CERTIFICATES / "client.pem")
    return made


def test_a_client_with_a_certificate_is_served(tls_daemon: Daemon) -> None:
    """Kept alive over several requests."""
    with connection(tls_daemon, context(certificate=True)) as client:
        for _ in range(3):
            assert client.request("GET", "/_ping").body == b"OK"
        assert client.request("GET", "/v1.54/info").json()["OSType"] == "linux"


def test_a_client_without_one_gets_nothing(tls_daemon: Daemon) -> None:
    """The handshake fails; with TLS 1.3 the client learns of it when it reads."""
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        with connection(tls_daemon, context(certificate=False)) as client:
            client.request("GET", "/_ping")
    assert tls_daemon.request("GET", "/_ping").status == 200


@pytest.mark.parametrize("body", [b"", b"x" * 300_000], ids=["no body", "a body"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "HEAD"])
def test_plain_http_is_told_what_is_amiss(tls_daemon: Daemon, method: str, body: bytes) -> None:
    """In words, which a client shows; it gets nothing else and harms nobody."""
    with tls_daemon.namespaces.connect(PORT) as plain:
        plain.settimeout(30)
        plain.sendall(f"{method} /_ping HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: plain.recv(1000), b""))
    assert answer == b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    assert tls_daemon.request("GET", "/_ping").status == 200


def test_a_client_of_an_authority_that_the_host_trusts_gets_nothing(tls_daemon: Daemon, stranger: Path) -> None:
    """CVE-2018-12608: beside --tlscacert dockerd took certificates of every authority of the system."""
    assert f"SSL_CERT_FILE={stranger}".encode() in Path(f"/proc/{tls_daemon.pid}/environ").read_bytes()
    unknown = context(certificate=False)
    unknown.load_cert_chain(stranger)
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        with connection(tls_daemon, unknown) as client:
            client.request("GET", "/_ping")


def test_who_wants_http_2_alone_gets_it(tls_daemon: Daemon) -> None:
    """BuildKit's client, as ALPN says (RFC 7301); who takes both goes on in HTTP/1.1, in which the API is."""
    both, alone = context(certificate=True), context(certificate=True)
    both.set_alpn_protocols(["h2", "http/1.1"])
    alone.set_alpn_protocols(["h2"])
    with connection(tls_daemon, both) as client:
        assert client.socket.selected_alpn_protocol() == "http/1.1"
        assert client.request("GET", "/_ping").body == b"OK"
    with connection(tls_daemon, alone) as client:
        assert client.socket.selected_alpn_protocol() == "h2"
        client.socket.sendall(http2.Connection(True).to_send())
        assert frames.HEAD.unpack(client.socket.recv(frames.HEAD.size))[2] == frames.SETTINGS
