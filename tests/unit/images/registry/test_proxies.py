"""Proxies: which requests go by one, and what is said to it."""

import contextlib
import socket
import ssl
import subprocess
import threading

import pytest

from engine import redact
from engine.daemon.images.registry.proxies import Proxy, proxy_for
from engine.daemon.images.registry.transport import ConnectFailure, Origin, Transport
from engine.daemon.images.verbs import pull
from engine.errors import Invalid
from tests.unit.images import made
from tests.unit.images.made import MadeImage, archive, member
from tests.unit.images.verbs.test_pull import OWN

ENVIRONMENT = {"HTTP_PROXY": "http://plain:3128", "https_proxy": "http://user:p%40ss@secure"}


@pytest.mark.parametrize(
    ("scheme", "found"),
    [("http", Proxy("plain", 3128)), ("https", Proxy("secure", 80, "Basic dXNlcjpwQHNz"))],
)
def test_each_scheme_has_its_proxy(scheme, found):
    assert proxy_for(scheme, "registry.test", 443, ENVIRONMENT) == found
    assert proxy_for(scheme, "registry.test", 443, {}) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_the_host_itself_is_never_asked_by_way_of_a_proxy(host):
    assert proxy_for("http", host, 5000, ENVIRONMENT) is None


@pytest.mark.parametrize(
    ("exceptions", "host", "direct"),
    [
        ("*", "a.test", True),
        ("a.test", "a.test", True),
        ("A.test", "a.TEST.", True),
        ("a.test", "b.a.test", True),
        ("a.test", "ba.test", False),
        (".a.test", "b.a.test", True),
        (".a.test", "a.test", False),
        ("*.a.test", "b.a.test", True),
        ("x, a.test ,y", "a.test", True),
        ("a.test:5000", "a.test", True),
        ("a.test:5001", "a.test", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:5000", "10.1.2.3", True),
        ("fd00::/8", "fd00::1", True),
        ("fd00::1", "fd00:0::1", True),
        ("[fd00::1]:5000", "fd00::1", True),
        ("[fd00::1]:1", "fd00::1", False),
        ("10.0.0.0/99", "10.1.2.3", False),
        ("2.3", "10.1.2.3", False),
        ("", "a.test", False),
    ],
)
def test_no_proxy_names_hosts_domains_addresses_and_networks(exceptions, host, direct):
    environment = {**ENVIRONMENT, "NO_PROXY": exceptions}
    assert (proxy_for("http", host, 5000, environment) is None) == direct


@pytest.mark.parametrize("text", ["socks5://p:1", "https://p", "http://p:x", "http://"])
def test_what_is_no_http_proxy_is_refused_without_its_password(text):
    with pytest.raises(Invalid, match="unsupported proxy") as refused:
        proxy_for("http", "a.test", 80, {"HTTP_PROXY": text.replace("//", "//user:secret@")})
    assert "secret" not in str(refused.value)


def test_docker_info_shows_no_password():
    assert redact.proxy("http://user:secret@p:1") == "http://xxxxx:xxxxx@p:1"
    assert redact.proxy("user:secret@p") == "xxxxx:xxxxx@p"
    assert redact.proxy("http://p:1") == "http://p:1"
    assert redact.proxy("") == ""


class ProxyServer:
    """A proxy in a thread: every host is `target`. `asked` has the head of each request."""

    def __init__(self, target: str):
        self.asked: list[str] = []
        self.refusal = b""
        self._target = target.rpartition(":")[0], int(target.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.create_connection(self._target) as server:
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(4096)
                if not data:
                    return
                head += data
            self.asked.append(head.decode())
            line, _, rest = head.partition(b"\r\n")
            if self.refusal:
                client.sendall(self.refusal)
                return
            if line.startswith(b"CONNECT "):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                method, url, version = line.split()
                path = b"/" + url.split(b"/", 3)[3]
                # One request a connection is enough here.
                server.sendall(b" ".join((method, path, version)) + b"\r\nConnection: close\r\n" + rest)
            back = threading.Thread(target=self._copy, args=(server, client))
            back.start()
            self._copy(client, server)
            back.join()

    @staticmethod
    def _copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def make_proxy():
    with contextlib.ExitStack() as stack:

        def make(target):
            proxy = ProxyServer(target)
            stack.callback(proxy.close)
            return proxy

        yield make


@pytest.fixture(autouse=True)
def no_other_proxies(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_an_image_comes_by_way_of_the_proxy(tmp_path, registry, make_proxy, monkeypatch):
    image = MadeImage(archive(member("a", b"1")), **OWN)
    registry.add(image, "latest")
    proxy = make_proxy(registry.address)
    monkeypatch.setenv("HTTP_PROXY", f"http://user:secret@{proxy.address}")
    store = made.store(tmp_path, mirrors=("http://registry.test",))
    found = pull.pull(store, "x", "latest", None, None, lambda line: None)
    assert found.repo_tags == ("x:latest",)
    assert proxy.asked[0].startswith("HEAD http://registry.test/v2/library/x/manifests/latest HTTP/1.1\r\n")
    assert "Host: registry.test\r\n" in proxy.asked[0]
    assert all("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n" in head for head in proxy.asked)


def test_tls_goes_through_the_proxy_untouched(make_proxy, tmp_path, monkeypatch):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=r", "-keyout", "k", "-out", "c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    server = threading.Thread(target=serve)
    server.start()
    proxy = make_proxy(f"127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{proxy.address}")
    transport = Transport()
    with contextlib.closing(transport), listener:
        reply = transport.send("GET", Origin("https", "registry.test", 443, unchecked=True), "/v2/", {})
        assert reply.read() == b"hi"
        server.join()
    assert proxy.asked[0].startswith("CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n" in proxy.asked[0]


@pytest.mark.parametrize(
    ("refusal", "text"),
    [(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "Bad Gateway"), (b"nonsense\r\n\r\n", "malformed HTTP response")],
)
def test_a_proxy_that_refuses_is_told(make_proxy, registry, monkeypatch, refusal, text):
    proxy = make_proxy(registry.address)
    proxy.refusal = refusal
    monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
    with contextlib.closing(Transport()) as transport, pytest.raises(ConnectFailure, match=text):
        transport.send("GET", Origin("https", "registry.test", 443), "/v2/", {})


def test_a_proxy_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    failed = pytest.raises(ConnectFailure, match=r"^proxyconnect tcp: dial tcp 127\.0\.0\.1:1: .*connection refused$")
    with contextlib.closing(Transport()) as transport, failed:
        transport.send("GET", Origin("http", "registry.test", 80), "/v2/", {})
