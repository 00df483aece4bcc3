"""The HTTP client below registries and downloads: connections per thread, TLS and proxies, with errors in Go's words.

Runs in the daemon, on the threads of a pull or push; a `Transport` lives as long as one of these. It knows nothing of
registries' protocol, follows no redirect and adds no credentials of a registry.
"""

import errno
import functools
import http.client
import logging
import os
import re
import select
import socket
import ssl
import threading
import urllib.parse
from typing import Protocol

from engine.daemon.images import platform
from engine.daemon.images.registry import paced
from engine.daemon.images.registry.answer import Answer
from engine.daemon.images.registry.proxies import Proxy, proxy_for
from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.kernel import outside, reasons
from engine.literals import quoted
from engine.settings.advertised import REPORTED_VERSION, VERSION

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 30.0
CERTIFICATES = "/etc/docker/certs.d"
# The client's own name stands in a comment (RFC 9110 10.1.5), as dockerd writes it.
_ESCAPED = re.compile(r"[();\\]")
_NOT_SENT = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_MOST_OF_CLIENT = 1024
_reported = [REPORTED_VERSION]
_PORTS = {"https": 443, "http": 80}
# Characters shown of a first line that is not HTTP.
_MOST_SHOWN = 100
_LOOPBACK = ("127.0.0.0/8", "::1/128")


class ConnectFailure(SystemFailure):
    """There is no connection, or it broke before an answer came; `speaks_plain`: the server has no TLS on that port."""

    def __init__(self, text: str, speaks_plain: bool = False):
        super().__init__(text)
        self.speaks_plain = speaks_plain


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request goes: scheme, host without brackets, and port; unchecked: its certificate is not verified."""

    scheme: str
    host: str
    port: int
    unchecked: bool = False

    @property
    def netloc(self) -> str:
        """host:port in the form of a URL, without the port if it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def split_url(url: str) -> tuple[str, str, int, str]:
    """(scheme, host, port, request target) of an http(s) URL. Raises SystemFailure for any other URL."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SystemFailure(f"unsupported URL {url!r}") from error
    if parts.scheme not in _PORTS or not parts.hostname or any(not 32 < ord(letter) < 127 for letter in url):
        raise SystemFailure(f"unsupported URL {url!r}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme], target


def joined(base: str, location: str) -> str:
    """The URL that a header `Location`, which may be relative, points at. Raises SystemFailure for an invalid one."""
    # urllib drops line ends from its input, and so would take two lines for one URL.
    if any(not 32 < ord(letter) < 127 for letter in location):
        raise SystemFailure(f"unsupported URL {location!r}")
    try:
        return urllib.parse.urljoin(base, location)
    except ValueError as error:
        raise SystemFailure(f"unsupported URL {location!r}") from error


def is_insecure(netloc: str, insecure: tuple[str, ...]) -> bool:
    """True for a registry that needs no valid TLS: on a loopback address, or listed as host[:port] or network."""
    try:
        host = urllib.parse.urlsplit(f"//{netloc}").hostname or ""
    except ValueError as error:  # brackets around something that is no address
        raise SystemFailure(f"unsupported registry {quoted(netloc)}") from error
    if netloc in insecure or host in insecure or host == "localhost":
        return True
    import ipaddress  # imported late: it takes memory that an idle daemon does not need

    networks = [ipaddress.ip_network(text, strict=False) for text in (*_LOOPBACK, *insecure) if "/" in text]
    addresses = _addresses(host, len(networks) > len(_LOOPBACK))
    return any(ipaddress.ip_address(address) in network for address in addresses for network in networks)


def _addresses(host: str, resolve: bool) -> list[str]:
    """The addresses of a host: itself if it is an address; a name is looked up only with `resolve`."""
    flags = 0 if resolve else socket.AI_NUMERICHOST
    try:
        found = outside.call(lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags))
    except (OSError, UnicodeError):  # UnicodeError: IDNA does not take the name, so no host has it
        return []
    return [str(address[4][0]).partition("%")[0] for address in found]


def report(version: str) -> None:
    """Name this version of docker from now on."""
    _reported[0] = version


def agent(client: str = "") -> str:
    """The daemon's User-Agent, in the form of dockerd's; client: what the daemon's client calls itself"""
    system, architecture = os.uname(), platform.host().architecture
    own = f"docker/{_reported[0]} engine/{VERSION} kernel/{system.release} os/linux arch/{architecture}"
    told = _ESCAPED.sub(r"\\\g<0>", _NOT_SENT.sub("", client[:_MOST_OF_CLIENT]))
    return f"{own} UpstreamClient({told})" if told else own


_NO_LOOPBACK = "a build reaches the host's loopback interface with the entitlement network.host only"


class Sender(Protocol):
    """A request's body that writes itself to the socket, and may do so again when the request is repeated."""

    size: int

    def send(self, connection: socket.socket) -> bool:
        """Write `size` bytes; False if the server has answered before it had them all. Raises OSError."""


class Transport:
    """The connections of one pull or push. Each thread has its own, so no answer waits for another thread's.

    client: what the daemon's client calls itself, which registries are told; empty for none
    loopback: the host's loopback interface may be asked; a proxy of the daemon's may be there in any case
    """

    def __init__(self, client: str = "", loopback: bool = True) -> None:
        self._agent, self._loopback = agent(client), loopback
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: list[http.client.HTTPConnection] = []
        self._interrupted = False

    def close(self) -> None:
        """Close every connection; a thread that is reading from one gets an error."""
        with self._lock:
            for connection in self._all:
                # Shut down first, because close() alone would not wake a thread that blocks in a read.
                if connection.sock is not None:
                    _shut(connection.sock)
                connection.close()
            self._all.clear()

    def interrupt(self) -> None:
        """Shut all connections down, so that no thread waits longer; their descriptors stay taken until `close`."""
        with self._lock:
            self._interrupted = True
            for connection in self._all:
                if connection.sock is not None:
                    _shut(connection.sock)

    def send(
        self, method: str, origin: Origin, target: str, headers: dict[str, str], body: bytes | Sender | None = None
    ) -> Answer:
        """Send a request and read the head of its answer; the caller must read the whole body, or call `drop`.

        body: bytes, or a `Sender` that writes itself to the connection. Raises ConnectFailure.
        """
        kept: dict[Origin, http.client.HTTPConnection] = self._local.__dict__.setdefault("kept", {})
        sent = {"User-Agent": self._agent, "Accept-Encoding": "identity", **headers}
        # The server may have closed a kept connection meanwhile. Then the request is sent again, on a new connection.
        last = kept.pop(origin, None)
        if last is not None and not (body is None or isinstance(body, bytes)) and _has_ended(last):
            last.close()
            last = None
        for connection in (last, None):
            fresh = connection is None
            try:
                proxy = self._proxy(origin)
                connection = connection or self._connect(origin, proxy)
                plain = proxy if origin.scheme == "http" else None
                answer = _exchange(connection, method, *_by_way_of(plain, origin, target, sent), body)
            except (http.client.HTTPException, OSError) as error:
                if connection is not None:
                    connection.close()
                # The server may have read a part of what a `Sender` wrote. Its owner knows where to go on.
                if not fresh and (body is None or isinstance(body, bytes)):
                    continue
                raise self._failure(error) from error
            if not answer.will_close:
                kept[origin] = connection
            return answer
        raise AssertionError("the second round returns or raises")

    def drop(self, origin: Origin) -> None:
        """Close this thread's connection to the origin, because its present answer is not read to its end."""
        connection = self._local.__dict__.get("kept", {}).pop(origin, None)
        if connection is not None:
            connection.close()

    @staticmethod
    def _proxy(origin: Origin) -> Proxy | None:
        try:
            return proxy_for(origin.scheme, origin.host, origin.port, os.environ)
        except Invalid as error:
            raise ConnectFailure(f"proxyconnect tcp: {error}") from error

    def _connect(self, origin: Origin, proxy: Proxy | None) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(origin.host, origin.port, timeout=paced.SILENCE_SECONDS)
        plain = _dial(origin.host, origin.port, self._loopback) if proxy is None else _dial_proxy(proxy)
        try:
            if origin.scheme == "https":
                if proxy is not None:
                    _tunnel(plain, proxy, origin)
                plain = _tls(origin).wrap_socket(plain, server_hostname=origin.host)
            plain.settimeout(paced.SILENCE_SECONDS)
        except (OSError, ConnectFailure):
            plain.close()
            raise
        connection.response_class = Answer
        connection.sock = plain
        # 0, or http.client would open the next connection by itself, without TLS.
        connection.auto_open = 0
        with self._lock:
            self._all.append(connection)
            if self._interrupted:
                _shut(plain)
        return connection

    def _failure(self, error: Exception) -> ConnectFailure:
        if isinstance(error, ConnectFailure):
            return error
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
            # Escaped, because the text goes to terminals and logs.
            shown = ascii(str(error)[:_MOST_SHOWN])[1:-1]
            return ConnectFailure(f'net/http: HTTP/1.x transport connection broken: malformed HTTP response "{shown}"')
        if isinstance(error, ssl.SSLCertVerificationError):
            why = "certificate signed by unknown authority" if error.verify_code in _UNKNOWN else error.verify_message
            return ConnectFailure(f"tls: failed to verify certificate: x509: {why}")
        if isinstance(error, ssl.SSLError):
            plain = error.reason in _PLAIN_ANSWERS
            text = "http: server gave HTTP response to HTTPS client" if plain else f"tls: {error.reason or error}"
            return ConnectFailure(text, speaks_plain=plain)
        if isinstance(error, TimeoutError):
            return ConnectFailure("net/http: timeout awaiting response headers")
        if isinstance(error, ConnectionResetError | BrokenPipeError):
            return ConnectFailure("read: connection reset by peer")
        if isinstance(error, OSError) and error.errno:
            return ConnectFailure(reasons.of(error.errno))
        return ConnectFailure("EOF" if not str(error) else str(error))


def _by_way_of(proxy: Proxy | None, origin: Origin, target: str, headers: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Target and headers of a request to a proxy, which forwards it; without a proxy both are returned unchanged."""
    if proxy is None:
        return target, headers
    own = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
    return f"{origin.scheme}://{origin.netloc}{target}", {**headers, **own}


def _dial_proxy(proxy: Proxy) -> socket.socket:
    try:
        return _dial(proxy.host, proxy.port)
    except ConnectFailure as failure:
        raise ConnectFailure(f"proxyconnect tcp: {failure}") from failure


def _tunnel(connection: socket.socket, proxy: Proxy, origin: Origin) -> None:
    """Have the proxy open a tunnel to the origin by CONNECT (RFC 9110, 9.3.6). Raises ConnectFailure, OSError."""
    import http.client  # imported late, as in `send`

    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    head = [f"CONNECT {host}:{origin.port} HTTP/1.1", f"Host: {host}:{origin.port}", f"User-Agent: {agent()}"]
    if proxy.authorization:
        head.append(f"Proxy-Authorization: {proxy.authorization}")
    connection.settimeout(paced.SILENCE_SECONDS)
    connection.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
    # The origin sends nothing before the client has begun TLS, so no byte is lost in this answer's buffer.
    answer = Answer(connection, method="CONNECT")
    try:
        answer.begin()
    except http.client.HTTPException as error:
        raise ConnectFailure(f"proxyconnect tcp: malformed HTTP response: {error}") from error
    finally:
        answer.close()
    if answer.status != 200:
        raise ConnectFailure(answer.reason or f"proxyconnect tcp: {answer.status}")


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """True when there is something to read though no request is open; usually it is the end of the connection."""
    if connection.sock is None:
        return True
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    return bool(waiting.poll(0))


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes | Sender | None,
) -> Answer:
    if body is None or isinstance(body, bytes):
        connection.request(method, target, body=body, headers=headers)
        return _answer_of(connection)
    connection.request(method, target, headers={**headers, "Content-Length": str(body.size)})
    failure: OSError | None = None
    try:
        whole = body.send(connection.sock)
    except (BrokenPipeError, ConnectionResetError) as error:
        whole, failure = False, error
    try:
        answer = _answer_of(connection)
    except OSError as error:
        raise failure or error from None
    # The server would take the part of the body that it has not read for the next request.
    answer.will_close = answer.will_close or not whole
    return answer


def _answer_of(connection: http.client.HTTPConnection) -> Answer:
    answer = connection.getresponse()
    assert isinstance(answer, Answer)  # the connection's response_class
    return answer


def read_body(answer: Answer, most: int) -> bytes:
    """At most `most` bytes of an answer's body. Raises ConnectFailure if the body breaks off or is malformed."""
    try:
        return answer.read(most)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConnectFailure(
            f"failed to read the registry's answer: {reasons.whole(error) or 'unexpected EOF'}"
        ) from error


# OpenSSL's codes (X509_V_ERR_*) for a chain of certificates without a trusted end: no issuer, or self-signed.
_UNKNOWN = (2, 18, 19, 20, 21)
# OpenSSL's reasons for an answer that is no TLS record; its versions have different names for it.
_PLAIN_ANSWERS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.EBADF):  # closed already by the server or by its own thread
            raise


def _dial(host: str, port: int, loopback: bool = True) -> socket.socket:
    """A connection to the first address of `host` that accepts one. Raises the ConnectFailure of the first address.

    loopback: the address may be one of the host's loopback interface
    """
    try:
        found = outside.call(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:  # UnicodeError: IDNA does not take the name, so no host has it
        raise ConnectFailure(f"dial tcp: lookup {host}: no such host") from error
    first: ConnectFailure | None = None
    for family, kind, protocol, _, address in found:
        shown = f"[{address[0]}]:{port}" if family == socket.AF_INET6 else f"{address[0]}:{port}"
        if not loopback and _is_loopback(str(address[0])):
            first = first or ConnectFailure(f"dial tcp {shown}: {_NO_LOOPBACK}")
            continue
        connection = outside.call(functools.partial(socket.socket, family, kind, protocol))
        try:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(address)
            return connection
        except TimeoutError:
            connection.close()
            first = first or ConnectFailure(f"dial tcp {shown}: i/o timeout")
        except OSError as error:
            connection.close()
            first = first or ConnectFailure(f"dial tcp {shown}: connect: {reasons.of(error.errno or errno.EIO)}")
    raise first or ConnectFailure(f"dial tcp: lookup {host}: no such host")


def _is_loopback(text: str) -> bool:
    """Whether connect(2) leads to the loopback interface, as it does for the addresses that mean any, too."""
    import ipaddress  # imported late: most requests ask for no such check

    address = ipaddress.ip_address(text.partition("%")[0])
    inner = (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped) or address
    return inner.is_loopback or inner.is_unspecified


def _tls(origin: Origin) -> ssl.SSLContext:
    """The TLS context for one registry: the system's authorities, and certificates in /etc/docker/certs.d for it."""
    if origin.unchecked:  # then the system's authorities are not read, which takes longer than the connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context = ssl.create_default_context()
    directory = os.path.join(CERTIFICATES, origin.netloc)
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        path = os.path.join(directory, name)
        try:
            if name.endswith(".crt"):
                context.load_verify_locations(path)
            elif name.endswith((".cert", ".key")):
                _load_pair(context, path, name)
        except (OSError, ValueError) as error:
            raise ConnectFailure(f"failed to read {path}: {reasons.whole(error)}") from error
    return context


def _load_pair(context: ssl.SSLContext, path: str, name: str) -> None:
    """Load the client certificate for the registry. Raises ConnectFailure if the certificate or its key is missing."""
    certificate, key = (os.path.splitext(path)[0] + kind for kind in (".cert", ".key"))
    if not os.path.exists(key):
        raise ConnectFailure(
            f"missing key {os.path.basename(key)} for client certificate {name}. "
            "CA certificates must use the extension .crt"
        )
    if not os.path.exists(certificate):
        raise ConnectFailure(f"missing client certificate {os.path.basename(certificate)} for key {name}")
    context.load_cert_chain(certificate, key, password=_no_password)


def _no_password() -> str:
    # Without this function OpenSSL would ask for a password on the daemon's terminal.
    raise ValueError("the key is encrypted")
