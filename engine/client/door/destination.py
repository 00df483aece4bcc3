"""Says where the daemon is that the user means: reads ENGINE_HOST, DOCKER_HOST and docker's variables for TLS.

Pure: texts in, a `Destination` out. It opens no connection and looks for no file but by name.
"""

import os
from collections.abc import Mapping

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # who says where the daemon is needs nobody to know where it usually is
    from engine.settings import whose
else:
    whose = late("engine.settings.whose")

PLAIN_PORT, TLS_PORT = 2375, 2376
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Certificates:
    """What a connection over TLS needs.

    verify: the daemon must show a certificate of the authority `ca` for the name that was asked for
    ca, certificate, key: paths of files; empty for none
    """

    verify: bool
    ca: str
    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class Destination:
    """One daemon's address.

    kind: `unix` (path), `tcp` (host, port, tls) or `ssh` (host, user, port; path for a socket other than the default)
    port: 0 where ssh is to choose
    """

    kind: str
    path: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    tls: Certificates | None = None

    @property
    def shown(self) -> str:
        """The address as the user would write it."""
        if self.kind == "unix":
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = f"{self.user}@{host}" if self.user else host
        return f"{self.kind}://{place}{f':{self.port}' if self.port else ''}{self.path}"


def destination(environ: Mapping[str, str], uid: int) -> Destination:
    """The daemon that this environment names: by ENGINE_HOST, else DOCKER_HOST, else this user's own, or the host's
    where the user has none.

    The variables for TLS count for tcp:// alone. Raises Invalid for an address of no known form.
    """
    address = (
        environ.get("ENGINE_HOST") or environ.get("DOCKER_HOST") or f"unix://{whose.socket_of_client(uid, environ)}"
    )
    kind, separator, rest = address.partition("://")
    form = _FORMS.get(kind)
    if not separator or form is None:
        raise Invalid(f"unable to parse host ({address}): give unix:///PATH, tcp://HOST:PORT or ssh://[USER@]HOST")
    return form(rest, address, environ)


def certificates(environ: Mapping[str, str]) -> Certificates | None:
    """What DOCKER_TLS_VERIFY, DOCKER_TLS and DOCKER_CERT_PATH ask for; None for a plain connection.

    As with docker, any value but an empty one switches on. DOCKER_TLS encrypts, and asks for no name.
    """
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verify and not environ.get("DOCKER_TLS"):
        return None
    place = environ.get("DOCKER_CERT_PATH") or os.path.join(environ.get("HOME", "/"), ".docker")
    names = [os.path.join(place, name) for name in ("ca.pem", "cert.pem", "key.pem")]
    # Without DOCKER_CERT_PATH the files may be missing: a daemon may ask its clients for nothing.
    there = [name if environ.get("DOCKER_CERT_PATH") or os.path.exists(name) else "" for name in names]
    return Certificates(verify, *there)


def _unix(rest: str, address: str, environ: Mapping[str, str]) -> Destination:
    if not rest.startswith("/"):
        raise Invalid(f"unable to parse host ({address}): the path of a Unix socket must be absolute")
    return Destination("unix", path=rest)


def _tcp(rest: str, address: str, environ: Mapping[str, str]) -> Destination:
    tls = certificates(environ)
    host, port, path = _place(rest, address)
    if not host or path.strip("/"):
        raise Invalid(f"unable to parse host ({address}): give tcp://HOST:PORT")
    return Destination("tcp", host=host, port=port or (TLS_PORT if tls else PLAIN_PORT), tls=tls)


def _ssh(rest: str, address: str, environ: Mapping[str, str]) -> Destination:
    user, _, place = rest.rpartition("@")
    host, port, path = _place(place, address)
    # A name with a dash in front would be an option of ssh's.
    if not host or host.startswith("-") or user.startswith("-") or ":" in user:
        raise Invalid(f"unable to parse host ({address}): give ssh://[USER@]HOST[:PORT]")
    return Destination("ssh", path=path.rstrip("/"), host=host, port=port, user=user)


def _place(rest: str, address: str) -> tuple[str, int, str]:
    """`host`, `host:port` or `[address]:port`, perhaps with a path behind it, as (host, port or 0, path)."""
    place, slash, path = rest.partition("/")
    host, port = place, ""
    if place.startswith("["):
        host, bracket, port = place[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise Invalid(f"unable to parse host ({address})")
        port = port[1:]
    elif ":" in place:
        host, _, port = place.rpartition(":")
    if port and not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) <= _LAST_PORT):
        raise Invalid(f'unable to parse host ({address}): "{port}" is no port')
    return host, int(port or 0), slash + path


_FORMS = {"unix": _unix, "tcp": _tcp, "ssh": _ssh}
