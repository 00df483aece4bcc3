"""Authentication at registries: parsing challenges, the Basic and Bearer schemes, tokens, and the client's credentials.

Runs in the daemon, on the threads of a pull or a push. Credentials live as long as the call they came with. They are
never written anywhere, and are sent only to the registry and to the token server that it names.
RFC 9110 11 (challenges), RFC 7617 (Basic), distribution's token specification (Bearer).
"""

import base64
import http.client
import re
import threading
import urllib.parse
from collections.abc import Callable

from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import EngineError, Forbidden, Invalid, NotBuilt, SystemFailure, Unauthorized, Unavailable

_CLIENT = "engine"
TOKEN = "token function"
"""The key under which the daemon itself gives, among credentials, a function that fetches tokens. No JSON can."""
FetchToken = Callable[[str, str, list[str]], str]
"""Fetches a token: (realm, service, scopes) → the token, empty where there is none to be had that way."""
_HUB, _HUB_KEY = "docker.io", "https://index.docker.io/v1/"
# Real headers have a few hundred bytes. The search in a malicious one takes time with the square of its length.
_LONGEST_CHALLENGES = 4096
_CHALLENGE = re.compile(r"(?:^|,)\s*(?P<scheme>[A-Za-z][A-Za-z0-9-]*)(?=\s+[A-Za-z_-]+=|\s*$|\s*,)")
_PARAMETER = re.compile(r'([A-Za-z_-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class TokenRefused(Unauthorized):
    """A token server has refused the credentials and said why; nothing is to be added to its words."""


class RegistryFailure(SystemFailure):
    """What a registry has said of itself, and no more than that; nothing is to be added to its words."""


class UnexpectedStatus(EngineError):
    """An answer with a status that means nothing here. opinion: what dockerd says of its body before all else"""

    def __init__(self, text: str, body: object = None) -> None:
        super().__init__(text)
        self.opinion = "error from registry" if isinstance(body, dict) and body else "unknown"


class UnexpectedRefusal(UnexpectedStatus, Unauthorized):
    """An unexpected status that refuses the credentials."""


class UnexpectedFailure(UnexpectedStatus, SystemFailure):
    """An unexpected status of another kind."""


# Code of an error in a registry's document → the kind of failure, and the message that says no more than the code.
_CODES: dict[str, tuple[type[EngineError], str]] = {
    "UNAUTHORIZED": (TokenRefused, "authentication required"),
    "DENIED": (Forbidden, "requested access to the resource is denied"),
    "UNSUPPORTED": (NotBuilt, "The operation is unsupported."),
    "UNAVAILABLE": (Unavailable, "service unavailable"),
    "TOOMANYREQUESTS": (RegistryFailure, "too many requests"),
}


OWN_WORDS: tuple[type[EngineError], ...] = tuple({RegistryFailure, *(kind for kind, _ in _CODES.values())})
"""The kinds of what `registry_errors` makes."""


def registry_errors(document: object) -> EngineError | None:
    """What dockerd makes of the errors in a registry's document; None for a document without any."""
    errors = document.get("errors") if isinstance(document, dict) else None
    found = [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    kinds, lines = list[type[EngineError]](), list[str]()
    for each in found:
        code, message, detail = each.get("code"), each.get("message"), each.get("detail")
        code = code if isinstance(code, str) else ""
        kind, usual = _CODES.get(code, (RegistryFailure, "unknown error"))
        if message in (None, "", usual) and detail is None:
            kinds.append(RegistryFailure)  # dockerd knows no such kind, and says the code twice
            lines += [code.lower() if code in _CODES else "unknown"] * 2
        else:
            kinds.append(kind)
            lines.append(f"{message or usual} - {detail}" if isinstance(detail, str) else str(message or usual))
    return kinds[0]("error from registry: " + "\n".join(lines)) if kinds else None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials in the header X-Registry-Auth; fields that it did not have are empty.

    identity_token: an OAuth refresh token, used instead of a password; registry_token: a bearer token ready for use
    fetch_token: asks whoever has the credentials for a token
    """

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""
    fetch_token: FetchToken | None = None

    @classmethod
    def of(cls, auth: Object | None) -> "Credentials":
        """From the decoded X-Registry-Auth (API: AuthConfig); the case of keys is ignored, as in Go. Raises Invalid."""
        known = {str(key).lower(): value for key, value in (auth or {}).items()}
        texts = {key: value for key, value in known.items() if isinstance(value, str)}
        username, password = texts.get("username", ""), texts.get("password", "")
        if not username and texts.get("auth"):
            username, password = _decoded_pair(texts["auth"])
        registry_token = texts.get("registrytoken", "")
        if not _is_token(registry_token):
            raise Invalid(
                "invalid registrytoken in the registry credentials: it has characters that a header cannot contain"
            )
        fetch = known.get(TOKEN)
        return cls(
            username, password, texts.get("identitytoken", ""), registry_token, fetch if callable(fetch) else None
        )

    def __repr__(self) -> str:
        # A log line or a traceback must not hold the password.
        return f"Credentials(username={self.username!r})"


def _is_token(text: str) -> bool:
    """Whether the text can be the value of a header."""
    return text.isascii() and text.isprintable()


def _decoded_pair(auth: str) -> tuple[str, str]:
    """User and password in the field `auth`; empty if it is no base64 of user:password, as in dockerd.

    That is no error, because an open registry needs no credentials.
    """
    try:
        username, _, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return username, password.strip("\0")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a WWW-Authenticate header; the scheme and the names of parameters are in lower case."""

    scheme: str
    parameters: dict[str, str]


def parse_challenges(header: str) -> list[Challenge]:
    """The challenges in a WWW-Authenticate header, in order; unreadable parts, or a header too long, give none."""
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
    """The header with quoted texts replaced by as many underscores, so that no word in them is taken for a scheme."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: '"' + "_" * (len(match[0]) - 2) + '"', header)


# A function that fetches a token document: (url, headers, form or None) → status, document.
Fetch = Callable[[str, dict[str, str], dict[str, str] | None], tuple[int, Object]]


class Authorizer:
    """Finds the Authorization header for one registry during one call; several threads may use it.

    scope: such as `repository:library/busybox:pull`, several separated by blanks; fetch: asks a token server
    offline: also ask for an OAuth refresh token that the client can keep, which is then in `identity_token`
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
        """Answer the challenges: set `header` to a new value. Raises Unauthorized when no scheme gives one.

        refused: the header that was sent; nothing is done if another thread has replaced it since
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
    """The header with a token from the server in `realm`: by GET with Basic, or OAuth's POST with an identity token."""
    realm, credentials = parameters.get("realm", ""), authorizer.credentials
    if not realm:
        raise Unauthorized("authorization failed: the bearer challenge names no realm")
    asked = {"service": parameters.get("service", ""), "scope": _union(authorizer.scope, parameters.get("scope", ""))}
    asked = {name: value for name, value in asked.items() if value}
    if credentials.fetch_token is not None:
        given = credentials.fetch_token(realm, asked.get("service", ""), asked.get("scope", "").split())
        if given and _is_token(given):
            return f"Bearer {given}"
    if credentials.identity_token:
        form = {"grant_type": "refresh_token", "refresh_token": credentials.identity_token, "client_id": _CLIENT}
        asked_of = f"POST request to {realm}"
        status, document = authorizer.fetch(realm, {}, form | asked)
    else:
        if authorizer.offline:
            asked |= {"offline_token": "true", "client_id": _CLIENT, "account": credentials.username}
        headers = {"Authorization": _basic_header(credentials)} if credentials.username else {}
        mark = "&" if "?" in realm else "?"
        asked_of = f"GET request to {realm}{mark}{_query(asked)}"
        status, document = authorizer.fetch(realm + mark + _query(asked), headers, None)
    token = document.get("token") or document.get("access_token")
    if status != 200 or not isinstance(token, str) or not _is_token(token):
        if authorizer.offline:  # a login, whose caller tells where it was tried
            raise Unauthorized(f"authorization failed: the token server answered {status}{_reason(document)}")
        raise _refusal(status, document, asked_of, "oauth" if credentials.username else "anonymous")
    kept = document.get("refresh_token") or credentials.identity_token
    authorizer.identity_token = kept if authorizer.offline and isinstance(kept, str) else ""
    return f"Bearer {token}"


def _union(*scopes: str) -> str:
    """The scopes (`type:name:action,action`, separated by blanks) in one text, each name once with all its actions."""
    actions: dict[str, dict[str, None]] = {}
    for scope in " ".join(scopes).split():
        name, _, wanted = scope.rpartition(":")
        actions.setdefault(name, {}).update(dict.fromkeys(wanted.split(",")))
    return " ".join(f"{name}:{','.join(wanted)}" for name, wanted in actions.items())


def _query(asked: dict[str, str]) -> str:
    """The query of a token URL; each scope is a parameter of its own."""
    scopes = [("scope", scope) for scope in asked.get("scope", "").split()]
    others = [(name, value) for name, value in asked.items() if name != "scope"]
    return urllib.parse.urlencode(sorted([*others, *scopes], key=lambda pair: pair[0]))


def _refusal(status: int, document: Object, asked_of: str, kind: str) -> EngineError:
    """What dockerd says where a token server gives no token: the server's own words, if it has any."""
    if status != 200 and (said := registry_errors(document)) is not None:
        return said
    details = document.get("details")
    if isinstance(details, str) and details and status in (401, 403):
        return (
            TokenRefused(f"authentication required - {details}") if status == 401 else Forbidden(f"denied - {details}")
        )
    failed = f"failed to authorize: failed to fetch {kind} token"
    if status == 200:
        return SystemFailure(f"{failed}: authorization server did not include a token in the response")
    why = f"unexpected status from {asked_of}: {status} {http.client.responses.get(status, '')}"
    kind_of = UnexpectedRefusal if status in (401, 403) else UnexpectedFailure
    return kind_of(f"{failed}: {why.rstrip()}", document)


def _reason(document: Object) -> str:
    """The token server's reason for a refusal, after a colon; empty where it gives none."""
    errors = document.get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    text = first.get("message") or document.get("details") or document.get("error_description")
    return f": {text}" if isinstance(text, str) else ""


# Name of a scheme in lower case → the function that makes the Authorization header from a challenge's parameters.
SCHEMES: dict[str, Callable[[Authorizer, dict[str, str]], str]] = {"bearer": _bearer, "basic": _basic}


def chosen(auths: dict[str, Object], domain: str) -> Object | None:
    """The credentials for one registry among those of the header X-Registry-Config; None where it has none.

    The keys of the header are hosts, or URLs; docker's clients write a URL for Docker Hub.
    """
    key = _HUB_KEY if domain == _HUB else domain
    if key in auths:
        return auths[key]
    for known, found in auths.items():
        host = known.removeprefix("https://").removeprefix("http://").partition("/")[0]
        if host == domain or (domain == _HUB and host == "index.docker.io"):
            return found
    return None
