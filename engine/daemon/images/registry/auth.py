"""How a registry wants to be asked: challenges, the schemes that answer them, and the credentials a client sends along.

Runs in the daemon, on the threads of a pull. Owns the table of schemes. Credentials live as long as the call they came
with, are never written anywhere, and never go to another host than the registry and the token server it names.
RFC 9110 11 (challenges), RFC 7617 (Basic), distribution's token specification (Bearer).
"""

import base64
import re
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass

from engine.daemon.jsontext import Object
from engine.errors import Invalid, Unauthorized

_CLIENT = "engine"
# Real ones have a few hundred bytes; the search in one made for it takes the square of its length.
_LONGEST_CHALLENGES = 4096
_CHALLENGE = re.compile(r"(?:^|,)\s*(?P<scheme>[A-Za-z][A-Za-z0-9-]*)(?=\s+[A-Za-z_-]+=|\s*$|\s*,)")
_PARAMETER = re.compile(r'([A-Za-z_-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


@dataclass(frozen=True, slots=True)
class Credentials:
    """What X-Registry-Auth carried; empty texts where it said nothing.

    identity_token: an OAuth refresh token, instead of a password; registry_token: a bearer token ready for use
    """

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    @classmethod
    def of(cls, auth: Object | None) -> "Credentials":
        """From the decoded X-Registry-Auth (API: AuthConfig); keys are compared as Go does, whatever their case."""
        known = {str(key).lower(): value for key, value in (auth or {}).items()}
        texts = {key: value for key, value in known.items() if isinstance(value, str)}
        username, password = texts.get("username", ""), texts.get("password", "")
        if not username and texts.get("auth"):
            username, password = _decoded_pair(texts["auth"])
        registry_token = texts.get("registrytoken", "")
        if not _is_token(registry_token):
            raise Invalid("invalid registrytoken in the registry credentials: no header can hold it")
        return cls(username, password, texts.get("identitytoken", ""), registry_token)

    def __repr__(self) -> str:
        # A log line or a traceback must not hold the password.
        return f"Credentials(username={self.username!r})"


def _is_token(text: str) -> bool:
    """Whether it can stand in a header."""
    return text.isascii() and text.isprintable()


def _decoded_pair(auth: str) -> tuple[str, str]:
    """What the field says; nothing where it is no base64 of user:password: an open registry needs none (as dockerd)."""
    try:
        username, _, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return username, password.strip("\0")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a WWW-Authenticate header: scheme in lower case, parameters with their names so too."""

    scheme: str
    parameters: dict[str, str]


def parse_challenges(header: str) -> list[Challenge]:
    """The challenges of a WWW-Authenticate header, in order; unreadable parts, and too long a header, are left out."""
    if len(header) > _LONGEST_CHALLENGES:
        return []
    starts = list(_CHALLENGE.finditer(_without_quoted(header)))
    found = []
    for number, match in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(header)
        pairs = _PARAMETER.findall(header[match.end() : end])
        parameters = {name.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain for name, quoted, plain in pairs}
        found.append(Challenge(match["scheme"].lower(), parameters))
    return found


def _without_quoted(header: str) -> str:
    """The header with every quoted text blanked out, of the same length, so that its words look like no scheme."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: '"' + "_" * (len(match[0]) - 2) + '"', header)


# Fetches a token document: (url, headers, form or None) → status, document.
Fetch = Callable[[str, dict[str, str], dict[str, str] | None], tuple[int, Object]]


class Authorizer:
    """Answers the challenges of one registry during one call; used by several threads.

    scope: as `repository:library/busybox:pull`, several parted by blanks; fetch: how a token server is asked
    offline: ask for a token to keep as well, an OAuth refresh token, which is then in `identity_token`
    """

    def __init__(self, credentials: Credentials, scope: str, fetch: Fetch, offline: bool = False):
        self.credentials = credentials
        self.scope = scope
        self.fetch = fetch
        self.offline = offline
        self.identity_token = ""
        self._lock = threading.Lock()
        self._header = f"Bearer {credentials.registry_token}" if credentials.registry_token else ""

    @property
    def header(self) -> str:
        """The Authorization header to send, empty before any challenge."""
        return self._header

    def answer(self, challenges: list[Challenge], refused: str) -> None:
        """Find the header that answers; refused: the one sent before, which another thread may have replaced since.

        Raises Unauthorized when there is no answer.
        """
        with self._lock:
            if self._header != refused:
                return
            for challenge in challenges:
                scheme = SCHEMES.get(challenge.scheme)
                if scheme is None:
                    continue
                header = scheme(self, challenge.parameters)
                if header == refused:
                    break
                self._header = header
                return
        raise Unauthorized("authorization failed: the registry refuses the credentials")


def _basic(authorizer: Authorizer, _: dict[str, str]) -> str:
    credentials = authorizer.credentials
    if not credentials.username:
        raise Unauthorized("authorization failed: no basic auth credentials")
    return _basic_header(credentials)


def _basic_header(credentials: Credentials) -> str:
    return "Basic " + base64.b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()


def _bearer(authorizer: Authorizer, parameters: dict[str, str]) -> str:
    """A token from the server named by `realm`: GET with Basic, or OAuth's POST with an identity token."""
    realm, credentials = parameters.get("realm", ""), authorizer.credentials
    if not realm:
        raise Unauthorized("authorization failed: the bearer challenge names no realm")
    asked = {"service": parameters.get("service", ""), "scope": _union(authorizer.scope, parameters.get("scope", ""))}
    asked = {name: value for name, value in asked.items() if value}
    if credentials.identity_token:
        form = {"grant_type": "refresh_token", "refresh_token": credentials.identity_token, "client_id": _CLIENT}
        status, document = authorizer.fetch(realm, {}, form | asked)
    else:
        if authorizer.offline:
            asked |= {"offline_token": "true", "client_id": _CLIENT, "account": credentials.username}
        headers = {"Authorization": _basic_header(credentials)} if credentials.username else {}
        mark = "&" if "?" in realm else "?"
        status, document = authorizer.fetch(realm + mark + _query(asked), headers, None)
    token = document.get("token") or document.get("access_token")
    if status != 200 or not isinstance(token, str) or not _is_token(token):
        raise Unauthorized(f"authorization failed: the token server answered {status}{_reason(document)}")
    kept = document.get("refresh_token") or credentials.identity_token
    authorizer.identity_token = kept if authorizer.offline and isinstance(kept, str) else ""
    return f"Bearer {token}"


def _union(*scopes: str) -> str:
    """The scopes (`type:name:action,action`, parted by blanks) in one text, each name once with all of its actions."""
    actions: dict[str, dict[str, None]] = {}
    for scope in " ".join(scopes).split():
        name, _, wanted = scope.rpartition(":")
        actions.setdefault(name, {}).update(dict.fromkeys(wanted.split(",")))
    return " ".join(f"{name}:{','.join(wanted)}" for name, wanted in actions.items())


def _query(asked: dict[str, str]) -> str:
    """The query of a URL; each scope is a parameter of its own."""
    scopes = [("scope", scope) for scope in asked.get("scope", "").split()]
    return urllib.parse.urlencode([*((name, value) for name, value in asked.items() if name != "scope"), *scopes])


def _reason(document: Object) -> str:
    """The words of a token server's refusal, if it has any."""
    errors = document.get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    text = first.get("message") or document.get("details") or document.get("error_description")
    return f": {text}" if isinstance(text, str) else ""


# A scheme: name in lower case → what makes the Authorization header of its parameters.
SCHEMES: dict[str, Callable[[Authorizer, dict[str, str]], str]] = {"bearer": _bearer, "basic": _basic}
