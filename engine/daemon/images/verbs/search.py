"""Searching a registry's index for images (GET /images/search), by GET /v1/search of docker's first registry API.

Runs in the daemon, on the request's thread. A term without a host goes to index.docker.io, `HOST/words` to that host.
"""

import contextlib
import re
import urllib.parse

from engine.daemon.images import image as documents
from engine.daemon.images.registry.auth import Authorizer, Credentials
from engine.daemon.images.registry.reads import Registry
from engine.daemon.images.registry.transport import CERTIFICATES, ConnectFailure, read_body
from engine.daemon.jsontext import Object
from engine.daemon.patterns import truth
from engine.errors import Invalid, SystemFailure
from engine.literals import integer
from engine.settings.every import Settings

_OFFICIAL = "docker.io"
_OFFICIAL_HOST = "index.docker.io"
_DEFAULT_LIMIT = 25
_MOST = 100
_FILTERS = ("is-automated", "is-official", "stars")
_SCOPE = "registry:catalog:search"
# The fields of one result, in docker's order, with their types.
_FIELDS = {"star_count": int, "is_official": bool, "name": str, "is_automated": bool, "description": str}


class _Index(Registry):
    """A registry's index, for searching only."""

    def __init__(self, netloc: str, insecure: tuple[str, ...], credentials: Credentials):
        super().__init__(netloc, "https", "", insecure, credentials)
        self._authorizer = Authorizer(credentials, _SCOPE, self._fetch_token)

    def ask(self, target: str) -> bytes:
        """The document at the request target `target`. Raises SystemFailure, Unauthorized, Invalid."""
        if self.origin.host != _OFFICIAL_HOST:
            self._ping()
        try:
            answer, _ = self._answered("GET", target, {"X-Docker-Token": "true"})
        except ConnectFailure as failure:
            raise ConnectFailure(_said(failure)) from failure
        if answer.status != 200:
            raise SystemFailure(f"Unexpected status code {answer.status}")
        data = read_body(answer, documents.LARGEST_DOCUMENT + 1)
        if len(data) > documents.LARGEST_DOCUMENT:
            raise SystemFailure(f"the answer to a search is larger than {documents.LARGEST_DOCUMENT} bytes")
        return data

    def _ping(self, before: str = "") -> None:
        """Ask whether somebody is there, whatever the answer is. Raises Invalid; before: how it failed with TLS."""
        try:
            answer = self._sent("GET", self._origins[0], "/v1/_ping", {})
            read_body(answer, documents.LARGEST_DOCUMENT)
            self.transport.drop(self.origin)
        except ConnectFailure as failure:
            if len(self._origins) == 1:
                raise Invalid(self._unreachable(_said(failure), before)) from failure
            self._origins.pop(0)
            self._ping(_said(failure))

    def _unreachable(self, said: str, before: str) -> str:
        netloc = self.origin.netloc
        if before:
            return f'invalid registry endpoint "http://{netloc}/v1/". HTTPS attempt: {before}. HTTP attempt: {said}'
        return (
            f"invalid registry endpoint https://{netloc}/v1/: {said}. If this private registry supports only HTTP or"
            f" HTTPS with an unknown CA certificate, add `--insecure-registry {netloc}` to the daemon's arguments."
            " In the case of HTTPS, if you have access to the registry's CA certificate, no need for the flag;"
            f" place the CA certificate at {CERTIFICATES}/{netloc}/ca.crt"
        )


def _said(failure: ConnectFailure) -> str:
    return str(failure).removeprefix("failed to do request: ")


def search(settings: Settings, term: str, limit_text: str, filters: Object, auth: Object | None) -> list[Object]:
    """The results for GET /images/search.

    term: the words, perhaps after `HOST/`; settings: `insecure_registries` is read. Raises Invalid, Unauthorized,
    SystemFailure.
    """
    limit = _limit(limit_text)
    for name in filters:
        if name not in _FILTERS:
            raise Invalid(f"invalid filter '{name}'")
    automated, official = _flag(filters, "is-automated"), _flag(filters, "is-official")
    stars = _stars(filters)
    if automated:
        # The index builds no images any more, so no result can match.
        return []
    host, words = _split(term)
    try:
        index = _Index(host, tuple(settings.insecure_registries), Credentials.of(auth))
    except SystemFailure as error:  # no URL can have that host
        raise Invalid(f"invalid index name ({host})") from error
    with contextlib.closing(index.transport):
        data = index.ask(f"/v1/search?{urllib.parse.urlencode({'q': words, 'n': limit})}")
    found = _results(data)
    return [
        {**result, "is_automated": False}
        for result in found
        if result["star_count"] >= stars and (official is None or result["is_official"] == official)
    ]


def _limit(text: str) -> int:
    if not text:
        return _DEFAULT_LIMIT
    try:
        limit = integer(text) or _DEFAULT_LIMIT
    except Invalid as error:
        raise Invalid(f"invalid limit specified: {error}") from error
    if not 1 <= limit <= _MOST:
        raise Invalid(f"limit {limit} is outside the range of [1, {_MOST}]")
    return limit


def _flag(filters: Object, name: str) -> bool | None:
    """The value of a boolean filter, None when it is not given. Raises Invalid."""
    values = filters.get(name)
    return truth(name, values) if values else None


def _stars(filters: Object) -> int:
    least = 0
    for value in filters.get("stars", ()):
        try:
            least = max(least, integer(value))
        except Invalid as error:
            raise Invalid(f"invalid filter 'stars={value}': {error}") from error
    return least


def _split(term: str) -> tuple[str, str]:
    """The host to ask, and the words to search for. Raises Invalid."""
    if "://" in term:
        raise Invalid(f"invalid repository name: repository name ({term}) should not have a scheme")
    host, slash, rest = term.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        return _OFFICIAL_HOST, term.removeprefix("library/")
    if host in (_OFFICIAL, _OFFICIAL_HOST):
        return _OFFICIAL_HOST, rest.removeprefix("library/")
    if not re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", host) or host.startswith("-"):
        raise Invalid(f"invalid index name ({host})")
    return host, rest


def _results(data: bytes) -> list[Object]:
    """The results in the index's document, each with all fields. Raises SystemFailure."""
    try:
        results = documents.load(data, "search results").get("results") or []
    except Invalid as error:
        raise SystemFailure(f"error decoding registry search results: {error}") from error
    if not isinstance(results, list):
        raise SystemFailure("error decoding registry search results: results is not a list")
    return [_result(result) for result in results]


def _result(result: object) -> Object:
    if not isinstance(result, dict):
        raise SystemFailure("error decoding registry search results: a result is not an object")
    found = {}
    for name, kind in _FIELDS.items():
        value = result.get(name)
        value = kind() if value is None else value
        # type() and not isinstance(): in Python a bool is an int, but in JSON it is no number.
        if type(value) is not kind:
            raise SystemFailure(f"error decoding registry search results: {name} is of the wrong type")
        found[name] = value
    return found
