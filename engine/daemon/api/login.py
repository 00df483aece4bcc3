"""Checks a client's registry credentials for POST /auth, and returns the identity token that the registry gives for
them.

Runs in the request's thread. It speaks to the registry as a pull does, and downloads nothing. It is imported late,
because an idle daemon does not need the code that speaks to registries. Credentials are neither kept nor logged.
"""

import contextlib
import re
import socket

from engine.daemon.images.registry.auth import Authorizer, Credentials
from engine.daemon.images.registry.reads import Registry
from engine.daemon.images.registry.transport import ConnectFailure
from engine.daemon.jsontext import Object
from engine.errors import Invalid, SystemFailure, Unauthorized
from engine.literals import LAST_PORT, natural, quoted

_OFFICIAL = frozenset({"", "docker.io", "index.docker.io", "registry-1.docker.io"})
_OFFICIAL_HOST = "registry-1.docker.io"
_PING = "/v2/"
_REFUSED = "authorization failed: "
_PORT = re.compile(r":[^\]:]*$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NO_HOST = re.compile(r"""[ "<>\\^`{|}#?@]|[^\x00-\x7f]""")


class _Login(Registry):
    """A registry that is only asked whether it accepts the credentials."""

    def __init__(self, netloc: str, insecure: tuple[str, ...], credentials: Credentials):
        super().__init__(netloc, "https", "", insecure, credentials)
        # A token without a scope says who the client is, and grants no rights.
        self._authorizer = Authorizer(credentials, "", self._fetch_token, offline=True)

    @property
    def identity_token(self) -> str:
        """The token that a token server gave to be kept in place of the password; empty when it gave none."""
        return self._authorizer.identity_token

    def attempt(self) -> tuple[int, str]:
        """Status and reason of the registry's answer to GET /v2/, after its authentication challenges were answered."""
        answer, _ = self._answered("GET", _PING, {})
        return answer.status, answer.reason


def check_login(address: str, credentials: Object, insecure: tuple[str, ...]) -> str:
    """Log in with the credentials (an AuthConfig) to the registry at `address`; returns the identity token, mostly
    empty.

    address: `host[:port]`, with or without scheme and path; empty for docker.io
    Raises Invalid for an impossible address, Unauthorized, SystemFailure.
    """
    netloc = address.removeprefix("https://").removeprefix("http://").partition("/")[0]
    _check_netloc(netloc)
    login = _Login(_OFFICIAL_HOST if netloc in _OFFICIAL else netloc, insecure, Credentials.of(credentials))
    with contextlib.closing(login.transport):
        try:
            status, reason = login.attempt()
        except ConnectFailure as failure:
            # Where the registry may do without TLS, dockerd names the plain URL, which it tries last.
            scheme = "http" if login.origin.unchecked else login.origin.scheme
            url = f"{scheme}://{login.origin.netloc}{_PING}"
            raise SystemFailure(f'Get "{url}": {failure.__cause__ or failure}') from failure
        except Unauthorized as refusal:
            raise Unauthorized(_in_docker_words(login, str(refusal))) from refusal
    if status != 200:
        text = f"login attempt to {_front_door(login)} failed with status: {status} {reason}"
        raise Unauthorized(text) if status in (401, 403) else SystemFailure(text)
    return login.identity_token


def _check_netloc(netloc: str) -> None:
    """Raise Invalid for what Go's url.Parse does not take as the host of a URL, in its words where they are short."""
    host, colon, port = netloc.rpartition(":") if _PORT.search(netloc) else (netloc, "", "")
    if bad := _CONTROL.search(netloc):
        reason = "net/url: invalid control character in URL"
    elif bad := _NO_HOST.search(host):
        reason = f"invalid character {quoted(bad[0])} in host name"
    elif colon and natural(port, LAST_PORT) is None:
        reason = f'invalid port ":{port}" after host'
    elif ("[" in host or "]" in host or ":" in host) and not _is_bracketed(host):
        reason = "invalid host"
    else:
        return
    url = quoted(f"https://{netloc}")
    raise Invalid(f"unable to parse server address: parse {url}: {reason}")


def _is_bracketed(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return False
    try:
        socket.inet_pton(socket.AF_INET6, host[1:-1].partition("%")[0])
    except OSError:
        return False
    return True


def _in_docker_words(login: _Login, text: str) -> str:
    if "no basic auth credentials" in text:
        return f'Get "{_front_door(login)}": no basic auth credentials'
    if "the token server" in text:
        return f'Get "{_front_door(login)}": unauthorized: {text.removeprefix(_REFUSED)}'
    return f"login attempt to {_front_door(login)} failed with status: 401 Unauthorized"


def _front_door(login: _Login) -> str:
    return f"{login.origin.scheme}://{login.origin.netloc}{_PING}"
