"""What a client lets a build have for registries: tokens that it fetches itself, and else its credentials.

Runs on the thread that asks the registry. The client that offers Auth/FetchToken asks the registry's token server by
itself, so its tokens need no password here, and it may have some that no password gives. A token is for the build of
that client alone, and none is kept or shared between sessions. So no client has to prove that it has the credentials
of another, for which BuildKit has GetTokenAuthority and VerifyTokenAuthority; the daemon does not call these.
"""

from collections.abc import Callable

from engine.daemon.buildkit import methods, sessions
from engine.daemon.buildkit.calling import unary
from engine.daemon.buildkit.messages import session as messages
from engine.daemon.buildkit.sessions import Session
from engine.daemon.jsontext import Object
from engine.errors import Unauthorized
from engine.late import TYPE_CHECKING, late
from engine.protocols import grpc

if TYPE_CHECKING:  # most builds find their base images here
    from engine.daemon.images.registry import auth
else:
    auth = late("engine.daemon.images.registry.auth")

_HUB = "https://index.docker.io/v1/"
"""How docker's clients name the registry docker.io."""
_CREDENTIALS, _TOKEN = methods.AUTH + "Credentials", methods.AUTH + "FetchToken"
_CLIENT = "engine"


Check = Callable[[], None]
"""Raises once nobody waits any more, which ends the wait for what a client does not answer."""


def credentials(session: Session, domain: str, check: Check) -> Object | None:
    """What the client has for a registry, as `images.registry.auth` takes it; None where it offers nothing.

    Raises Lost, and what `check` raises.
    """
    host = _HUB if domain == "docker.io" else domain
    found = _credentials(session, host, check) if _CREDENTIALS.lower() in session.offers else {}
    if _TOKEN.lower() in session.offers:
        found[auth.TOKEN] = _fetching(session, host, check)
    return {**found, "serveraddress": host} if found else None


def of_session(id: str, check: Check) -> Callable[[str], Object | None]:
    """What gives the credentials that the client of that session has; of no session there are none.

    What it returns raises NotFound for a session that does not come.
    """
    return lambda domain: credentials(sessions.find(id), domain, check) if id else None


def _credentials(session: Session, host: str, check: Check) -> Object:
    asked: messages.CredentialsRequest = {"Host": host}
    try:
        found = unary(
            session.link,
            _CREDENTIALS,
            messages.CredentialsRequest,
            messages.CredentialsResponse,
            asked,
            check=check,
        )
    except grpc.Failed:  # as from a client that has none
        return {}
    if not found["Secret"]:
        return {}
    if not found["Username"]:
        return {"identitytoken": found["Secret"]}
    return {"username": found["Username"], "password": found["Secret"]}


def _fetching(session: Session, host: str, check: Check) -> Callable[[str, str, list[str]], str]:
    def fetch(realm: str, service: str, scopes: list[str]) -> str:
        """A token for these scopes; empty where the client has nothing to fetch any. Raises Lost, Unauthorized."""
        asked: messages.FetchTokenRequest = {
            "ClientID": _CLIENT,
            "Host": host,
            "Realm": realm,
            "Service": service,
            "Scopes": scopes,
        }
        try:
            found = unary(
                session.link, _TOKEN, messages.FetchTokenRequest, messages.FetchTokenResponse, asked, check=check
            )
            return found["Token"]
        except grpc.Failed as error:
            if error.status.code in (grpc.UNIMPLEMENTED, grpc.NOT_FOUND):
                return ""
            raise Unauthorized(f"authorization failed: the client cannot fetch a token: {error}") from error

    return fetch
