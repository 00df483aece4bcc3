"""Credentials and tokens that a client's session gives for registries."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from engine.daemon.buildkit import authority, methods
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import session as messages
from engine.daemon.buildkit.serving import Call, Method
from engine.daemon.buildkit.sessions import Session
from engine.daemon.images.registry.auth import Authorizer, Credentials, parse_challenges
from engine.errors import EngineError, NotBuilt, Unauthorized
from tests.harness.links import LONG, running

CREDENTIALS, TOKEN = methods.AUTH + "Credentials", methods.AUTH + "FetchToken"
CHALLENGE = 'Bearer realm="https://tokens.example/t",service="registry",scope="repository:a/b:pull"'


def nothing() -> None:
    """Somebody waits all the time."""


Made = Callable[[dict[str, Callable[[Call], None]]], Session]


@pytest.fixture
def client() -> Iterator[Made]:
    """A session whose client offers these methods."""
    ends: list[Callable[[], None]] = []

    def made(served: dict[str, Callable[[Call], None]]) -> Session:
        near, far = socket.socketpair()
        link = Link(near, True)
        thread = threading.Thread(target=link.run)
        thread.start()
        serving = running(far, False, {path: Method(*methods.TABLES[path], run) for path, run in served.items()})
        serving.__enter__()

        def end() -> None:
            serving.__exit__(None, None, None)
            thread.join(LONG)

        ends.append(end)
        return Session("id", "", frozenset(path.lower() for path in served), link)

    yield made
    for end in ends:
        end()


def password(call: Call[messages.CredentialsRequest, messages.CredentialsResponse]) -> None:
    """For one host alone."""
    host = call.one()["Host"]
    call.send({"Username": "me", "Secret": "word"} if host == "registry.example" else {})


def header(session: Session) -> str:
    """With which a registry is asked that wants a token; its token server gives `by-password` to who has a password."""
    found = Credentials.of(authority.credentials(session, "registry.example", nothing))

    def fetch(_url: str, headers: dict[str, str], _form: dict[str, str] | None) -> tuple[int, dict]:
        return (200, {"token": "by-password"}) if "Authorization" in headers else (401, {})

    authorizer = Authorizer(found, "repository:a/b:pull", fetch)
    authorizer.answer(parse_challenges(CHALLENGE), "")
    return authorizer.header


def test_the_client_fetches_its_token_itself(client: Made) -> None:
    asked: list[messages.FetchTokenRequest] = []

    def token(call: Call[messages.FetchTokenRequest, messages.FetchTokenResponse]) -> None:
        asked.append(call.one())
        call.send({"Token": "by-client", "ExpiresIn": 60})

    assert header(client({CREDENTIALS: password, TOKEN: token})) == "Bearer by-client"
    (request,) = asked
    assert (request["Host"], request["Realm"]) == ("registry.example", "https://tokens.example/t")
    assert (request["Service"], request["Scopes"]) == ("registry", ["repository:a/b:pull"])
    assert header(client({TOKEN: token})) == "Bearer by-client"


def test_a_client_that_fetches_none_gives_its_password(client: Made) -> None:
    def none(call: Call[messages.FetchTokenRequest, messages.FetchTokenResponse]) -> None:
        call.one()
        raise NotBuilt("no tokens")

    assert header(client({CREDENTIALS: password, TOKEN: none})) == "Bearer by-password"
    assert header(client({CREDENTIALS: password})) == "Bearer by-password"


def test_what_a_client_cannot_or_may_not_is_told(client: Made) -> None:
    def refuses(call: Call[messages.FetchTokenRequest, messages.FetchTokenResponse]) -> None:
        call.one()
        raise EngineError("401 from the token server")

    with pytest.raises(Unauthorized, match="401 from the token server"):
        header(client({CREDENTIALS: password, TOKEN: refuses}))

    def hostile(call: Call[messages.FetchTokenRequest, messages.FetchTokenResponse]) -> None:
        call.one()
        call.send({"Token": "x\r\nHost: y"})

    assert header(client({CREDENTIALS: password, TOKEN: hostile})) == "Bearer by-password"


def test_a_client_that_has_nothing(client: Made) -> None:
    assert authority.credentials(client({}), "registry.example", nothing) is None
    assert authority.credentials(client({CREDENTIALS: password}), "other.example", nothing) is None
