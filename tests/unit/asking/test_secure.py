"""TLS to programs outside: who is believed, and the words for what is not."""

import contextlib
import os
import socket
import ssl
import threading
from pathlib import Path

import pytest

from engine.asking import secure
from engine.asking.secure import Certificates
from engine.errors import SystemFailure

FILES = Path(__file__).resolve().parents[1] / "api" / "certificates"
CA, SERVER, CLIENT = (str(FILES / name) for name in ("ca.pem", "server.pem", "client.pem"))


@pytest.fixture
def server():
    """A function: the client's end of a connection whose other end speaks TLS as a server, asking for a certificate."""
    with contextlib.ExitStack() as stack:

        def make(asks=False):
            ours, theirs = socket.socketpair()
            theirs.settimeout(30)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(SERVER)
            if asks:
                context.load_verify_locations(CA)
                context.verify_mode = ssl.CERT_REQUIRED

            def serve():
                with contextlib.suppress(OSError), context.wrap_socket(theirs, server_side=True) as over:
                    over.sendall(over.recv(100))

            thread = threading.Thread(target=serve)
            thread.start()
            stack.callback(thread.join)
            stack.callback(theirs.close)
            stack.callback(ours.close)
            return ours

        yield make


def said(plain, known, name="localhost"):
    """What comes back over TLS."""
    with secure.secured(plain, secure.context(known), name, 10) as over:
        over.sendall(b"hello")
        return over.recv(100)


def test_an_authority_that_is_named_is_believed(server):
    assert said(server(), Certificates(CA)) == b"hello"


def test_no_other_is_believed(server):
    with pytest.raises(SystemFailure, match=r"x509: certificate signed by unknown authority$"):
        said(server(), Certificates())


def test_a_certificate_is_for_its_host(server):
    with pytest.raises(SystemFailure, match=r"^tls: failed to verify certificate: x509: "):
        said(server(), Certificates(CA), "elsewhere.example")


def test_who_asks_for_no_check_gets_none(server):
    assert said(server(), Certificates(checked=False), "elsewhere.example") == b"hello"


def test_a_client_shows_its_certificate(server):
    assert said(server(asks=True), Certificates(CA, CLIENT, CLIENT)) == b"hello"
    with pytest.raises((SystemFailure, OSError)):
        assert said(server(asks=True), Certificates(CA)) == b""
        raise SystemFailure("nothing came back")


def test_who_speaks_no_tls_is_told():
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(SystemFailure, match=r"^tls: first record does not look like a TLS handshake$"):
            secure.secured(ours, secure.context(Certificates(CA)), "localhost", 10)


def test_files_that_cannot_be_used_are_named(tmp_path):
    fifo, empty = str(tmp_path / "fifo"), str(tmp_path / "empty")
    os.mkfifo(fifo)
    Path(empty).write_text("nothing")
    for known, words in (
        (Certificates("/nope"), r'^could not read CA certificate "/nope": open /nope: no such file or directory$'),
        (Certificates(fifo), r"^could not read CA certificate .*: it is no file$"),
        (Certificates(empty), r"^failed to append certificates from PEM file: "),
        (Certificates(CA, CLIENT, "/nope"), r'^could not load X509 key pair "/nope": '),
        (Certificates(CA, CA, CA), r"^could not load X509 key pair: "),
    ):
        with pytest.raises(SystemFailure, match=words):
            secure.context(known)
