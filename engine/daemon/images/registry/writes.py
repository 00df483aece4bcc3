"""Writing to a registry by the distribution protocol: existence checks, blob uploads, mounts, and putting manifests.

Runs in the daemon, on the threads of a push. Each answer's `Location` says where an upload goes on. The registry's
authorization is never sent to another origin than its own. Requests are not retried here; `upload` decides that.
Specification: OCI distribution-spec 1.1, "Push".
"""

import contextlib
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engine.daemon.images.reference import Reference
from engine.daemon.images.registry.answer import Answer
from engine.daemon.images.registry.auth import Credentials
from engine.daemon.images.registry.reads import Registry, refusal
from engine.daemon.images.registry.transport import Origin, Sender, joined, read_body, split_url
from engine.daemon.jsontext import Object
from engine.errors import SystemFailure, Unauthorized

_OFFICIAL = "docker.io"
_OFFICIAL_HOST = "registry-1.docker.io"
_LARGEST_ANSWER = 64 * 1024
_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,19})")
_CHUNK_LENGTH = re.compile(r"[0-9]{1,19}")
# Statuses that mean only that the mount is refused, so that the blob can be uploaded. Others are errors.
_MOUNT_REFUSED = (400, 401, 403, 404, 405)
_BINARY = {"Content-Type": "application/octet-stream"}


class Refused(SystemFailure):
    """The registry answered with an error status (`status`), or with an answer that makes no sense."""

    def __init__(self, text: str, status: int):
        super().__init__(text)
        self.status = status


class Place(NamedTuple):
    """The address of an upload's next request. target: path and query"""

    origin: Origin
    target: str

    @property
    def url(self) -> str:
        """The URL for error messages: without the query, which may hold signatures of a storage service."""
        return f"{self.origin.scheme}://{self.origin.netloc}{self.target.partition('?')[0]}"


class Upload(NamedTuple):
    """An upload that the registry has opened.

    place: where its next request goes; done: bytes that the registry has; smallest: its smallest chunk, 0 for any size
    """

    place: Place
    done: int = 0
    smallest: int = 0


class Writer(Registry):
    """A repository at its registry, for pushing to it."""

    def __init__(self, reference: Reference, insecure: tuple[str, ...], auth: Object | None):
        host = _OFFICIAL_HOST if reference.domain == _OFFICIAL else reference.domain
        super().__init__(host, "https", reference.path, insecure, Credentials.of(auth), actions="pull,push")

    def greet(self, neighbours: Iterable[str] = ()) -> None:
        """Make the first request (see `ping`), and ask for the right to read the repositories `neighbours` too.

        A mount from them needs that right. If the token server refuses so much, only this repository is asked for.
        Raises Unauthorized, SystemFailure.
        """
        own = self._authorizer.scope
        scopes = [f"repository:{repository}:pull" for repository in neighbours]
        self._authorizer.scope = " ".join((own, *scopes))
        try:
            self.ping()
        except Unauthorized:
            if not scopes:
                raise
            self._authorizer.scope = own
            self.ping()

    def has_blob(self, digest: str) -> bool:
        """True when the repository has the blob."""
        return self._has(f"blobs/{digest}", {})

    def has_manifest(self, digest: str, media_type: str) -> bool:
        """True when the repository has the manifest or index."""
        return self._has(f"manifests/{digest}", {"Accept": media_type})

    def _has(self, path: str, headers: dict[str, str]) -> bool:
        place = self._own(path)
        with self._exchange("HEAD", place, headers) as answer:
            if answer.status == 404:
                return False
            self._good(answer, "HEAD", place)
            return True

    def put_manifest(self, reference: str, digest: str, media_type: str, data: bytes) -> None:
        """Put a manifest or index under a tag or its digest. Raises Refused if the registry gives it another digest."""
        place = self._own(f"manifests/{reference}")
        with self._exchange("PUT", place, {"Content-Type": media_type}, data) as answer:
            self._good(answer, "PUT", place)
            self._same(answer, digest)

    # Uploads

    def start(self) -> Upload:
        """Open an upload. Raises Refused, Unauthorized, SystemFailure."""
        place = self._own("blobs/uploads/")
        with self._exchange("POST", place, {}, b"") as answer:
            self._good(answer, "POST", place)
            return self._opened(answer, place)

    def mount(self, digest: str, source: str) -> Upload | None:
        """Mount the blob from another repository; None when that is done, or an upload that was opened instead.

        Raises Refused when the registry did neither.
        """
        place = self._own("blobs/uploads/?" + urllib.parse.urlencode({"mount": digest, "from": source}))
        with self._exchange("POST", place, {}, b"") as answer:
            if answer.status == 201:
                self._same(answer, digest)
                return None
            if answer.status in _MOUNT_REFUSED:
                raise Refused(f"the registry does not mount {digest} from {source}", answer.status)
            self._good(answer, "POST", place)
            return self._opened(answer, place)

    def append(self, upload: Upload, body: Sender) -> Upload:
        """Send one chunk from `upload.done` on. Raises Refused when the registry reports another length afterwards."""
        end = upload.done + body.size
        headers = {**_BINARY, "Content-Range": f"{upload.done}-{end - 1}"}
        with self._exchange("PATCH", upload.place, headers, body) as answer:
            self._good(answer, "PATCH", upload.place)
            after = self._upload(answer, upload.place)
            if answer.headers.get("Range") is not None and after.done != end:
                raise Refused(f"the registry says it has {after.done} bytes of an upload of which {end} were sent", 416)
            return after._replace(done=end, smallest=upload.smallest)

    def finish(self, upload: Upload, digest: str, body: Sender | bytes) -> None:
        """Send the rest of the blob, perhaps nothing, and finish the upload under the digest. Raises Refused."""
        origin, target = upload.place
        mark = "&" if "?" in target else "?"
        place = Place(origin, f"{target}{mark}{urllib.parse.urlencode({'digest': digest})}")
        with self._exchange("PUT", place, _BINARY, body) as answer:
            self._good(answer, "PUT", place)
            self._same(answer, digest)

    def status(self, upload: Upload) -> Upload | None:
        """An interrupted upload with the bytes that the registry has; None if it has none, or forgot the upload."""
        with self._exchange("GET", upload.place, {}) as answer:
            if answer.status == 404:
                return None
            self._good(answer, "GET", upload.place)
            if "Location" not in answer.headers:
                return None
            found = self._upload(answer, upload.place)
            # Registries write the range 0-0 for one byte, and for none.
            return found._replace(smallest=upload.smallest) if found.done > 1 else None

    # Requests

    def _own(self, path: str) -> Place:
        return Place(self.origin, f"/v2/{self.repository}/{path}")

    @contextlib.contextmanager
    def _exchange(
        self, method: str, place: Place, headers: dict[str, str], body: Sender | bytes | None = None
    ) -> Iterator[Answer]:
        """The answer to a request, whatever its status; the rest of its body is read or dropped in the end."""
        origin, target = place
        if origin == self.origin:
            answer, origin = self._answered(method, target, headers, body)
        else:
            # Another server: it gets no authorization, and its redirects are not followed.
            answer = self._sent(method, origin, target, headers, body)
        try:
            yield answer
        finally:
            if not answer.isclosed():
                read_body(answer, _LARGEST_ANSWER)
            if not answer.isclosed():
                self.transport.drop(origin)

    def _good(self, answer: Answer, method: str, place: Place) -> None:
        if 200 <= answer.status < 300:
            return
        failure = refusal(answer, method, place.url)
        # Other statuses than a refusal of the credentials have different meanings for different requests.
        raise failure if isinstance(failure, Unauthorized) else Refused(str(failure), answer.status)

    def _opened(self, answer: Answer, place: Place) -> Upload:
        """A new upload, of which the registry has no byte; its answer has the range 0-0, which would mean one byte."""
        return self._upload(answer, place)._replace(done=0)

    def _upload(self, answer: Answer, place: Place) -> Upload:
        """The upload that an answer's headers describe. Raises SystemFailure without a Location."""
        location = answer.headers.get("Location")
        if not location:
            raise SystemFailure(f"the registry gave no address to continue the upload to {place.url}")
        span = _RANGE.fullmatch(answer.headers.get("Range") or "")
        least = _CHUNK_LENGTH.fullmatch(answer.headers.get("OCI-Chunk-Min-Length") or "")
        done = int(span[1]) + 1 if span else 0
        return Upload(self._place(location, place), done, int(least[0]) if least else 0)

    def _place(self, location: str, here: Place) -> Place:
        """The address in a `Location`, which may be relative. Raises SystemFailure if it is no HTTP, or drops TLS."""
        base = f"{here.origin.scheme}://{here.origin.netloc}{here.target}"
        scheme, host, port, target = split_url(joined(base, location))
        origin = self._origin_of(scheme, host, port)
        if here.origin.scheme == "https" and scheme != "https" and not origin.unchecked:
            raise SystemFailure(f"the registry sends an upload to {origin.netloc}, which does not use TLS")
        return Place(origin, target)

    @staticmethod
    def _same(answer: Answer, digest: str) -> None:
        said = answer.headers.get("Docker-Content-Digest", "")
        # The registry may use another digest algorithm, and then the two cannot be compared.
        if said and said.partition(":")[0] == digest.partition(":")[0] and said != digest:
            raise Refused(f"the registry stored {digest} as {said!r}", 400)
