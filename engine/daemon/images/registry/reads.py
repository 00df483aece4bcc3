"""Reading from a registry by the distribution protocol: manifests, tags, and blobs from any byte on; also redirects.

Runs in the daemon, on the threads of a pull or a push. The digest of a manifest's bytes is checked here where it is
known; the bytes are not interpreted. Authorization is sent to the registry's own origin only, never along a redirect to
another one. Specification: OCI distribution-spec 1.1.
"""

import contextlib
import re
import urllib.parse
from collections.abc import Iterator

from engine.daemon import busy, jsontext
from engine.daemon.images import image as documents
from engine.daemon.images.content import digest_of
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.registry.answer import Answer
from engine.daemon.images.registry.auth import (
    SCHEMES,
    Authorizer,
    Credentials,
    UnexpectedFailure,
    parse_challenges,
    registry_errors,
)
from engine.daemon.images.registry.transport import (
    ConnectFailure,
    Origin,
    Sender,
    Transport,
    is_insecure,
    joined,
    read_body,
    split_url,
)
from engine.daemon.jsontext import Object
from engine.errors import EngineError, Invalid, NotFound, SystemFailure, Unauthorized
from engine.literals import quoted

_OFFICIAL = "docker.io"
_OFFICIAL_HOST = "registry-1.docker.io"
_ACCEPT = ", ".join((*documents.MANIFESTS, *documents.INDEXES, "*/*"))
_REDIRECTS = (301, 302, 303, 307, 308)
_KEEP_METHOD = (307, 308)
_MOST_REDIRECTS = 10
_MOST_CHALLENGES = 2
_TAGS_A_PAGE = 1000
_MOST_TAGS = 20_000
_MOST_PAGES = 1000
# The link to the next page in a Link header (RFC 8288), in the form that registries write.
_NEXT = re.compile(r'<([^<>\s]{1,2048})>\s*;\s*rel="?next"?')
_LONGEST_ERROR = 64 * 1024


class Registry:
    """One repository at one endpoint, which is the registry itself or a mirror of it.

    netloc: host[:port]; insecure: registries (hosts, networks) that need no valid TLS; actions: of the token's scope
    """

    def __init__(
        self,
        netloc: str,
        scheme: str,
        repository: str,
        insecure: tuple[str, ...],
        credentials: Credentials,
        actions: str = "pull",
    ):
        self._insecure = insecure
        unchecked = is_insecure(netloc, insecure)
        _, host, port, _ = split_url(f"{scheme}://{netloc}/")
        has_port = port != 443 if scheme == "https" else True
        # Where TLS is not required, TLS is tried first, and then plain HTTP. The first one that answers stays in use.
        plain = [Origin("http", host, port if has_port else 80)] if unchecked and scheme == "https" else []
        self._origins = [Origin(scheme, host, port, unchecked), *plain]
        task = busy.now()
        self.transport = Transport(task.agent if task is not None else "")
        self.repository = repository
        self._authorizer = Authorizer(credentials, f"repository:{repository}:{actions}", self._fetch_token)

    @property
    def origin(self) -> Origin:
        """The origin that requests are sent to now."""
        return self._origins[0]

    @property
    def base(self) -> str:
        """The URL whose answer tells whether there is a registry, and whether it accepts the credentials."""
        return f"{self.origin.scheme}://{self.origin.netloc}/v2/"

    def ping(self) -> None:
        """Request `base` to check the registry and the credentials. Raises Unauthorized, SystemFailure."""
        try:
            answer, origin = self._answered("GET", "/v2/", {})
        except ConnectFailure as failure:
            if len(self._origins) > 1:
                # Neither TLS nor plain HTTP works. The error is that of the last one tried, as in dockerd.
                self._origins.pop(0)
                self.ping()
                return
            raise ConnectFailure(str(failure).removeprefix("failed to do request: ")) from failure
        try:
            if answer.status >= 400:
                raise refusal(answer, "GET", self.base)
        finally:
            self.transport.drop(origin)

    def resolve(self, reference: str) -> str:
        """The digest that a tag (or digest) points at, empty where the registry does not say it.

        Raises NotFound, and what dockerd makes of any other answer.
        """
        path, headers = f"/v2/{self.repository}/manifests/{reference}", {"Accept": _ACCEPT}
        answer, origin = self._answered("HEAD", path, headers)
        if not answer.isclosed():
            self.transport.drop(origin)
        if answer.status == 404:
            raise NotFound("not found")
        if answer.status >= 400:
            raise self._unexpected(answer, path, headers)
        digest = answer.headers.get("Docker-Content-Digest", "")
        try:
            if digest:
                check_digest(digest)
        except Invalid as error:
            raise SystemFailure(f"{quoted(digest)} in header not a valid digest: {error}") from error
        return digest

    def _unexpected(self, answer: Answer, path: str, headers: dict[str, str]) -> EngineError:
        """What to say of an answer to HEAD. It has no body, so where it forbids, GET is asked for the reasons."""
        body: object = None
        if answer.status == 403:
            again, origin = self._answered("GET", path, headers)
            data = read_body(again, _LONGEST_ERROR)
            self.transport.drop(origin)
            with contextlib.suppress(Invalid):
                body = jsontext.parse(data, "error")
        url = f"{self.origin.scheme}://{self.origin.netloc}{path}"
        text = f"unexpected status from HEAD request to {url}: {answer.status} {answer.reason}"
        return registry_errors(body) or UnexpectedFailure(text, body)

    def manifest(self, reference: str) -> tuple[bytes, str]:
        """Bytes and media type of a manifest or index. Bytes that were requested by a sha256 digest have that digest.

        Raises NotFound, Invalid, Unauthorized, SystemFailure.
        """
        with self._ask("GET", f"manifests/{reference}", {"Accept": _ACCEPT}) as answer:
            data = read_body(answer, documents.LARGEST_DOCUMENT + 1)
            kind = (answer.headers.get("Content-Type") or "").partition(";")[0].strip()
        if len(data) > documents.LARGEST_DOCUMENT:
            raise Invalid(f"the manifest is larger than {documents.LARGEST_DOCUMENT} bytes")
        if ":" in reference and reference.startswith("sha256:") and digest_of(data) != reference:
            raise SystemFailure(uncommitted("manifest", digest_of(data), reference))
        return data, kind

    def referrers(self, digest: str) -> list[Object]:
        """The descriptors of the manifests that are about another one; none where the registry knows of none.

        The tag in the place of the API is for registries that have none. Raises Invalid, Unauthorized, SystemFailure.
        """
        for place in (f"referrers/{digest}", f"manifests/{digest.replace(':', '-')}"):
            with contextlib.suppress(NotFound), self._ask("GET", place, {"Accept": documents.OCI_INDEX}) as answer:
                data = read_body(answer, documents.LARGEST_DOCUMENT + 1)
                if len(data) > documents.LARGEST_DOCUMENT:
                    raise Invalid(f"the list of referrers is larger than {documents.LARGEST_DOCUMENT} bytes")
                return documents.index_entries(documents.load(data, "list of referrers"))
        return []

    def tags(self) -> list[str]:
        """All tags of the repository, read page by page. Raises NotFound, Invalid."""
        found: dict[str, None] = {}
        path = f"tags/list?n={_TAGS_A_PAGE}"
        for _ in range(_MOST_PAGES):
            with self._ask("GET", path, {}) as answer:
                data = read_body(answer, documents.LARGEST_DOCUMENT + 1)
                link = answer.headers.get("Link") or ""
            if len(data) > documents.LARGEST_DOCUMENT:
                raise Invalid(f"the list of tags is larger than {documents.LARGEST_DOCUMENT} bytes")
            found |= dict.fromkeys(_tags_of(data))
            following = _NEXT.search(link)
            if following is None:
                return list(found)
            if len(found) > _MOST_TAGS:
                break
            # Only the query of the link is used, so that it cannot lead to another host or path.
            path = f"tags/list?{urllib.parse.urlsplit(following[1]).query}"
        raise Invalid(f"the list of the tags of {self.repository} does not end: pull them one by one")

    @contextlib.contextmanager
    def blob(self, digest: str, start: int = 0) -> Iterator[tuple[Answer, int]]:
        """The answer whose body is the blob, and the offset at which it begins: `start`, or 0 without range support."""
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._ask("GET", f"blobs/{digest}", headers) as answer:
            answer.paced.as_blob()
            yield answer, start if answer.status == 206 and _starts_at(answer, start) else 0

    @contextlib.contextmanager
    def _ask(self, method: str, path: str, headers: dict[str, str]) -> Iterator[Answer]:
        """The successful answer to a request below the repository; a body that is not read to its end is dropped."""
        url_path = f"/v2/{self.repository}/{path}"
        answer, origin = self._answered(method, url_path, headers)
        try:
            if answer.status >= 400:
                raise refusal(answer, method, f"{self.origin.scheme}://{self.origin.netloc}{url_path}")
            yield answer
        finally:
            if not answer.isclosed():
                self.transport.drop(origin)

    def _answered(
        self, method: str, path: str, headers: dict[str, str], body: bytes | Sender | None = None
    ) -> tuple[Answer, Origin]:
        for _ in range(_MOST_CHALLENGES + 1):
            sent = self._authorizer.header
            answer, origin = self._followed(method, path, headers, sent, body)
            # A server that the registry has redirected to gets no credentials, nor does a token server that it names.
            if answer.status != 401 or origin != self.origin:
                return answer, origin
            challenges = parse_challenges(answer.headers.get("WWW-Authenticate", ""))
            if not any(challenge.scheme in SCHEMES for challenge in challenges):
                return answer, origin
            read_body(answer, _LONGEST_ERROR)
            self.transport.drop(origin)
            self._authorizer.answer(challenges, sent)
        raise Unauthorized("authorization failed: the registry keeps asking for credentials")

    def _followed(
        self, method: str, path: str, headers: dict[str, str], authorization: str, body: bytes | Sender | None = None
    ) -> tuple[Answer, Origin]:
        """The answer after all redirects. A redirect that would turn another method into GET is not followed."""
        origin, target = self._first_origin(), path
        for _ in range(_MOST_REDIRECTS):
            own = {"Authorization": authorization} if authorization and origin == self.origin else {}
            answer = self._sent(method, origin, target, {**headers, **own}, body)
            location = answer.headers.get("Location")
            known = _REDIRECTS if method in ("GET", "HEAD") else _KEEP_METHOD
            if answer.status not in known or not location:
                return answer, origin
            base = f"{origin.scheme}://{origin.netloc}{target}"
            read_body(answer, _LONGEST_ERROR)
            if not answer.isclosed():
                self.transport.drop(origin)
            scheme, host, port, target = split_url(joined(base, location))
            origin = self._origin_of(scheme, host, port)
        raise SystemFailure(f"stopped after {_MOST_REDIRECTS} redirects")

    def _first_origin(self) -> Origin:
        """The origin that answers: plain HTTP replaces TLS once the registry turns out to have no TLS."""
        while len(self._origins) > 1:
            try:
                read_body(self.transport.send("GET", self.origin, "/v2/", {}), _LONGEST_ERROR)
            except ConnectFailure as failure:
                if not failure.speaks_plain and self.origin.port != 443:
                    return self.origin
                self._origins.pop(0)
            else:
                del self._origins[1:]
        return self.origin

    def _origin_of(self, scheme: str, host: str, port: int) -> Origin:
        if (scheme, host, port) == (self.origin.scheme, self.origin.host, self.origin.port):
            return self.origin
        other = Origin(scheme, host, port)
        return Origin(scheme, host, port, is_insecure(other.netloc, self._insecure))

    def _sent(
        self, method: str, origin: Origin, target: str, headers: dict[str, str], body: bytes | Sender | None = None
    ) -> Answer:
        try:
            return self.transport.send(method, origin, target, headers, body)
        except ConnectFailure as failure:
            url = f"{origin.scheme}://{origin.netloc}{target}"
            raise ConnectFailure(
                f'failed to do request: {method.capitalize()} "{url}": {failure}', failure.speaks_plain
            ) from failure

    def _fetch_token(self, url: str, headers: dict[str, str], form: dict[str, str] | None) -> tuple[int, Object]:
        """Ask a token server, by POST with a form or else by GET; returns the status and the document.

        Credentials are sent over plain HTTP only where the registry itself is insecure. Raises Unauthorized,
        SystemFailure.
        """
        scheme, host, port, target = split_url(url)
        origin = self._origin_of(scheme, host, port)
        if scheme != "https" and not (origin.unchecked or self.origin.scheme == "http"):
            raise Unauthorized(f"authorization failed: the token server {origin.netloc} does not use TLS")
        body = urllib.parse.urlencode(form).encode() if form else None
        kind = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        answer = self._sent("POST" if form else "GET", origin, target, {**headers, **kind}, body)
        data = read_body(answer, documents.LARGEST_DOCUMENT)
        try:
            document = jsontext.parse(data, "")
        except Invalid as error:
            if answer.status == 200:
                failed = f"failed to authorize: failed to fetch {'oauth' if form or headers else 'anonymous'} token"
                why = error if data else "EOF"
                raise SystemFailure(f"{failed}: unable to decode token response: {why}") from error
            document = {}
        return answer.status, document if isinstance(document, dict) else {}


def registries(
    reference: Reference, mirrors: tuple[str, ...], insecure: tuple[str, ...], auth: Object | None
) -> list[Registry]:
    """The endpoints to ask for a reference, in order: for docker.io its mirrors, without credentials, then itself."""
    if reference.domain != _OFFICIAL:
        return [Registry(reference.domain, "https", reference.path, insecure, Credentials.of(auth))]
    found = []
    for mirror in mirrors:
        parts = urllib.parse.urlsplit(mirror if "://" in mirror else f"https://{mirror}")
        found.append(Registry(parts.netloc, parts.scheme, reference.path, insecure, Credentials()))
    return [*found, Registry(_OFFICIAL_HOST, "https", reference.path, insecure, Credentials.of(auth))]


def uncommitted(kind: str, found: str, expected: str) -> str:
    """Why bytes that do not have their digest are refused, in containerd's words. kind: `manifest` or `layer`"""
    why = f"commit failed: unexpected commit digest {found}, expected {expected}: failed precondition"
    return f'failed commit on ref "{kind}-{expected}": {why}'


def _tags_of(data: bytes) -> list[str]:
    """The tags in one page of the list. Raises Invalid."""
    document = jsontext.parse(data, "list of tags")
    # Registries in Go write null for an empty list.
    tags = (document.get("tags") or []) if isinstance(document, dict) else None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Invalid("invalid list of tags: it is not a list of strings")
    return tags


def _starts_at(answer: Answer, start: int) -> bool:
    """True when a partial answer (206) begins at the requested offset."""
    return (answer.headers.get("Content-Range") or "").startswith(f"bytes {start}-")


def refusal(answer: Answer, method: str, url: str) -> EngineError:
    """The exception for an answer with a status of 400 or more, with the registry's own message where it has one."""
    status, data = answer.status, read_body(answer, _LONGEST_ERROR)
    said = _words(data)
    if status == 404:
        return NotFound(said or "not found")
    if status in (401, 403):
        return Unauthorized(said or f"unexpected status from {method} request to {url}: {status} {answer.reason}")
    return SystemFailure(
        f"unexpected status from {method} request to {url}: {status} {answer.reason}" + (f": {said}" if said else "")
    )


def _words(data: bytes) -> str:
    """`code: message` of the first error in a registry's error document, empty where there is none."""
    try:
        errors = documents.load(data, "error")["errors"]
        return f"{str(errors[0]['code']).lower().replace('_', ' ')}: {errors[0]['message']}"
    except (Invalid, KeyError, IndexError, TypeError):
        return ""
