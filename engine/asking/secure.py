"""Puts TLS over a connection to a program outside of the engine: which certificates are shown, and which believed.

Used where a log driver or a plugin asks for TLS, and loaded only there, because `ssl` takes several megabytes. What
fails is told in the words of Go's crypto/tls and of docker's tlsconfig.
"""

import os
import socket
import ssl
import stat

from engine.dataclass import dataclass
from engine.errors import SystemFailure
from engine.kernel import reasons
from engine.literals import quoted

_LARGEST = 1 << 20  # bytes of a file with certificates
# OpenSSL's numbers of verification errors: no issuer was found, or it is not believed.
_UNKNOWN = frozenset({2, 18, 19, 20, 21})
_EXPIRED = 10


@dataclass(frozen=True, slots=True)
class Certificates:
    """What a client of TLS knows, as paths of the host; empty for none.

    authority: the certificates that are believed, in the place of the host's own; certificate, key: what is shown to
        the server; checked: whether the server has to show a certificate that is believed
    """

    authority: str = ""
    certificate: str = ""
    key: str = ""
    checked: bool = True


def context(known: Certificates) -> ssl.SSLContext:
    """The client's side of TLS. Raises SystemFailure for a file that cannot be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if known.authority:
        text = _read(known.authority, "could not read CA certificate")
        try:
            made.load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError) as error:
            raise SystemFailure(f"failed to append certificates from PEM file: {quoted(known.authority)}") from error
    elif known.checked:
        made.load_default_certs()
    if not known.checked:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if known.certificate or known.key:
        for path in (known.certificate, known.key):
            _read(path, "could not load X509 key pair")
        try:
            made.load_cert_chain(known.certificate, known.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise SystemFailure(f"could not load X509 key pair: {reasons.whole(error)}") from error
    return made


def secured(plain: socket.socket, made: ssl.SSLContext, name: str, seconds: float) -> ssl.SSLSocket:
    """The connection with TLS over it, which owns the socket from now on; blocking.

    name: the host that the server's certificate has to be of
    Raises SystemFailure, and the socket is closed then.
    """
    try:
        plain.settimeout(seconds)
        over = made.wrap_socket(plain, server_hostname=name or None)
        over.settimeout(None)
    except (OSError, ValueError) as error:
        plain.close()
        raise SystemFailure(words(error)) from error
    return over


def words(error: OSError | ValueError) -> str:
    """Why there is no TLS, in Go's words as far as it has them."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        if error.verify_code in _UNKNOWN:
            why = "certificate signed by unknown authority"
        elif error.verify_code == _EXPIRED:
            why = "certificate has expired or is not yet valid"
        return f"tls: failed to verify certificate: x509: {why}"
    if isinstance(error, TimeoutError):
        return "net/http: TLS handshake timeout"
    if isinstance(error, ssl.SSLEOFError):
        return "EOF"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "tls: first record does not look like a TLS handshake"
    if isinstance(error, ssl.SSLError):
        return f"remote error: tls: {error.reason or error}".lower()
    return reasons.of(error) if isinstance(error, OSError) else str(error).lower()


def _read(path: str, refused: str) -> str:
    """The text of a file of certificates. The path may be that of anything: a FIFO must not hold up the caller."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SystemFailure(f"{refused} {quoted(path)}: it is no file")
            return file.read(_LARGEST).decode("ascii", "replace")
    except (OSError, ValueError) as error:
        why = (error.strerror or "") if isinstance(error, OSError) else str(error)
        raise SystemFailure(f"{refused} {quoted(path)}: open {path}: {why.lower()}") from error


def _no_password() -> str:
    # Without this function OpenSSL would ask for a password on the daemon's terminal.
    raise ValueError("the key is encrypted")
