"""A server that gives tokens for a docker-registry: to who has a password or an identity token, by GET and POST."""

import base64
import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

PAIR = "Basic " + base64.b64encode(b"user:secret").decode()
IDENTITY = "an identity token"
_SECONDS = 300


def _text(data: bytes) -> str:
    """base64url without its padding, as RFC 7515 has it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenServer:
    """Signs tokens that docker-registry checks. asked: (method, parameters) of each request

    listener: a socket that was made elsewhere, in another network perhaps
    """

    def __init__(self, directory: Path, listener: socket.socket | None = None) -> None:
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
                pairs = urllib.parse.parse_qsl(query)
                # There may be several, each in a parameter of its own.
                scopes = [value for name, value in pairs if name == "scope"]
                asked = {**dict(pairs), **({"scope": " ".join(scopes)} if scopes else {})}
                tokens.asked.append((self.command, asked))
                if not known:
                    self._answer(401, {"details": "incorrect username or password"})
                    return
                # Anybody may ask; only who is known may have something.
                anonymous = self.command == "GET" and self.headers.get("Authorization") is None
                token = tokens.token("" if anonymous else asked.get("scope", ""), asked.get("service", ""))
                name = "token" if self.command == "GET" else "access_token"
                self._answer(200, {name: token, "expires_in": _SECONDS})

            def _answer(self, status: int, said: dict[str, object]) -> None:
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        if listener is not None:
            self._server.socket.close()
            self._server.socket = listener
        self._server.server_bind()
        self._server.server_activate()
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wanted(self) -> str:
        """What the configuration of a docker-registry says that wants such tokens."""
        who = f"realm: {self.url}, service: here, issuer: tokens, rootcertbundle: {self.certificate}"
        return f"auth:\n  token: {{{who}}}\n"

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
