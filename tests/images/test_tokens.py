"""A registry that takes nothing but tokens, and the server that gives them: whom to whom, for what, and until when."""

import base64
import contextlib
import http.server
import json
import subprocess
import threading
import time
import urllib.parse

import pytest

from engine.errors import NotFound, Unauthorized
from tests.images.conftest import need, registries
from tests.images.test_registries import pull
from tests.unit.images.fakeregistry import answer

pytestmark = pytest.mark.root

PAIR = "Basic " + base64.b64encode(b"user:secret").decode()
IDENTITY = "an identity token"
_SECONDS = 300


def _text(data: bytes) -> str:
    """base64url without its padding, as RFC 7515 has it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenServer:
    """Signs tokens that docker-registry checks. asked: (method, parameters) of each request."""

    def __init__(self, directory):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tokens"]
        subprocess.run([*command, "-keyout", "key", "-out", "cert"], cwd=directory, check=True, capture_output=True)
        self.certificate = directory / "cert"
        self._key = directory / "key"
        self._der = subprocess.run(
            ["openssl", "x509", "-in", self.certificate, "-outform", "der"], check=True, capture_output=True
        ).stdout
        self.asked: list[tuple[str, dict[str, str]]] = []
        tokens = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._give(urllib.parse.urlsplit(self.path).query, self.headers.get("Authorization") in (PAIR, None))

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._give(form, dict(urllib.parse.parse_qsl(form)).get("refresh_token") == IDENTITY)

            def _give(self, query: str, known: bool) -> None:
                asked = dict(urllib.parse.parse_qsl(query))
                tokens.asked.append((self.command, asked))
                if not known:
                    answer(self, 401, b'{"details":"incorrect username or password"}')
                    return
                # Anybody may ask; only who is known may have something.
                anonymous = self.command == "GET" and self.headers.get("Authorization") is None
                token = tokens.token("" if anonymous else asked.get("scope", ""), asked.get("service", ""))
                name = "token" if self.command == "GET" else "access_token"
                answer(self, 200, json.dumps({name: token, "expires_in": _SECONDS}).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, scope: str, audience: str) -> str:
        """A JSON Web Token for what the scope says."""
        access = []
        for one in scope.split():
            kind, rest = one.split(":", 1)
            name, actions = rest.rsplit(":", 1)
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        now = int(time.time())
        header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(self._der).decode()]}
        claims = {
            "iss": "tokens",
            "sub": "user",
            "aud": audience,
            "jti": str(time.time_ns()),
            "nbf": now - 60,
            "iat": now - 60,
            "exp": now + _SECONDS,
            "access": access,
        }
        signed = f"{_text(json.dumps(header).encode())}.{_text(json.dumps(claims).encode())}"
        command = ["openssl", "dgst", "-sha256", "-sign", self._key]
        seal = subprocess.run(command, input=signed.encode(), check=True, capture_output=True).stdout
        return f"{signed}.{_text(seal)}"


@pytest.fixture
def tokens(tmp_path):
    need("openssl")
    with contextlib.closing(TokenServer(tmp_path)) as server:
        yield server


@pytest.fixture
def address(tokens, tmp_path, layout):
    """A registry that wants them, with an image in it."""
    who = f"realm: {tokens.url}, service: here, issuer: tokens, rootcertbundle: {tokens.certificate}"
    with registries(tmp_path) as make:
        found = make(f"auth:\n  token: {{{who}}}\n")
        layout.copy(f"docker://{found}/made:1", "--dest-tls-verify=false", "--dest-creds", "user:secret")
        tokens.asked.clear()
        yield found


def test_a_token_is_had_for_a_password_or_an_identity_token_and_for_nothing_else(store, address, tokens):
    with pytest.raises((NotFound, Unauthorized), match="pull access denied"):
        pull(store, address)
    with pytest.raises((NotFound, Unauthorized), match="pull access denied"):
        pull(store, address, auth={"username": "user", "password": "wrong"})
    with pytest.raises((NotFound, Unauthorized), match="pull access denied"):
        pull(store, address, auth={"identitytoken": "another one"})
    assert store.all() == []
    tokens.asked.clear()
    assert pull(store, address, auth={"username": "user", "password": "secret"}).repo_tags
    assert [(method, asked["service"], asked["scope"]) for method, asked in tokens.asked] == [
        ("GET", "here", "repository:made:pull")
    ]


def test_an_identity_token_is_given_for_a_token_and_a_ready_one_is_used_as_it_is(store, address, tokens):
    assert pull(store, address, auth={"identitytoken": IDENTITY}).repo_tags
    assert [(method, asked["grant_type"]) for method, asked in tokens.asked] == [("POST", "refresh_token")]
    tokens.asked.clear()
    ready = tokens.token("repository:made:pull", "here")
    assert pull(store, address, auth={"registrytoken": ready}).repo_tags
    assert tokens.asked == []
