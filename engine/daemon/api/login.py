"""Checking a client's credentials: can one log in to this registry with them, and is there a token to keep instead?

Runs in the request's thread. It speaks to the registry as a pull does and asks for nothing; imported late, because the
registry's side is not needed by an idle daemon. Credentials are neither kept nor logged.
"""

import contextlib

from engine.daemon.images.registries.auth import Authorizer, Credentials
from engine.daemon.images.registries.registry import Registry
from engine.daemon.images.registries.transport import ConnectFailure
from engine.errors import SystemFailure, Unauthorized

_OFFICIAL = frozenset({"", "docker.io", "index.docker.io", "registry-1.docker.io"})
_OFFICIAL_HOST = "registry-1.docker.io"
_PING = "/v2/"
_REFUSED = "authorization failed: "


class _Login(Registry):
    """A registry that is only asked whether it lets us in."""

    def __init__(self, netloc: str, insecure: tuple[str, ...], credentials: Credentials):
        super().__init__(netloc, "https", "", insecure, credentials)
        # Without a scope a token says who one is, and nothing of what one may do.
        self._authorizer = Authorizer(credentials, "", self._fetch_token, offline=True)

    @property
    def identity_token(self) -> str:
        """What a token server gave to be kept in place of the password; empty without one."""
        return self._authorizer.identity_token

    def attempt(self) -> tuple[int, str]:
        """Status and reason of the registry's front door, its challenges answered."""
        answer, _ = self._answered("GET", _PING, {})
        return answer.status, answer.reason


def check_login(address: str, credentials: dict, insecure: tuple[str, ...]) -> str:
    """The identity token, mostly empty, when the registry at `address` accepts the credentials (an AuthConfig).

    address: `host[:port]`, with or without scheme and path; empty for docker.io. Raises Unauthorized, SystemFailure.
    """
    netloc = address.removeprefix("https://").removeprefix("http://").partition("/")[0]
    login = _Login(_OFFICIAL_HOST if netloc in _OFFICIAL else netloc, insecure, Credentials.of(credentials))
    with contextlib.closing(login.transport):
        try:
            status, reason = login.attempt()
        except ConnectFailure as failure:
            # Where TLS is not insisted on, dockerd names the plain URL, which it tries last.
            scheme = "http" if login.origin.unchecked else login.origin.scheme
            url = f"{scheme}://{login.origin.netloc}{_PING}"
            raise SystemFailure(f'Get "{url}": {failure.__cause__ or failure}') from failure
        except Unauthorized as refusal:
            raise Unauthorized(_in_docker_words(login, str(refusal))) from refusal
    if status != 200:
        text = f"login attempt to {_front_door(login)} failed with status: {status} {reason}"
        raise Unauthorized(text) if status in (401, 403) else SystemFailure(text)
    return login.identity_token


def _in_docker_words(login: _Login, text: str) -> str:
    if "no basic auth credentials" in text:
        return f'Get "{_front_door(login)}": no basic auth credentials'
    if "the token server" in text:
        return f'Get "{_front_door(login)}": unauthorized: {text.removeprefix(_REFUSED)}'
    return f"login attempt to {_front_door(login)} failed with status: 401 Unauthorized"


def _front_door(login: _Login) -> str:
    return f"{login.origin.scheme}://{login.origin.netloc}{_PING}"
