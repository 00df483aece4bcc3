"""What one build takes from its client: a Dockerfile and a context, from directories of the client or from an upload.

Runs on the thread that builds. Directories are mirrored (`mirrors`, `filesync`), so that only what changed since the
last build travels. An upload, and what a URL gives, is an archive or a Dockerfile alone, read as it comes.
"""

import contextlib
import posixpath
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from engine.daemon.builder import mirrors
from engine.daemon.builder.context import Context, Fetching, opened, scratch, text_of
from engine.daemon.builder.graph.work import HOST_NETWORK
from engine.daemon.buildkit import filesync, methods, sessions, told, uploads
from engine.daemon.buildkit.calling import Outgoing
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.messages.session import BytesMessage
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.buildkit.sessions import Session
from engine.daemon.buildkit.wishes import Asked
from engine.daemon.dockerfile.ignore import Ignore
from engine.errors import Invalid, NotFound

_DOCKERFILE = "Dockerfile"
_IGNORE = ".dockerignore"
_UPLOADED = "buildkit-session"  # the host of a URL that means the client itself


class ClientFiles:
    """The files of one build; a context manager: what is opened here is kept until its end."""

    def __init__(self, data_root: str, job: Job, session: Session, asked: Asked) -> None:
        """session: the build's own; asked: where the files are"""
        self._data_root = data_root
        self._job = job
        self._session = session
        self._asked = asked
        self._held = contextlib.ExitStack()

    def __enter__(self) -> "ClientFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def remote(self) -> Context:
        """The context that the client uploads, or that a URL gives, with its Dockerfile. Raises EngineErrors."""
        url = self._asked.context
        given = uploads.find(url)
        try:
            uploaded = given is None and urlsplit(url).hostname == _UPLOADED
        except ValueError as error:
            raise Invalid(f"invalid context {url}: {error}") from error
        with told.transfer(self._job.progress, "[internal] load remote build context", "context") as come:
            with contextlib.ExitStack() as stack:
                body = stack.enter_context(_Upload(self._session, url, self._job.check)) if uploaded else given
                remote = "" if body else url
                how = Fetching(
                    lambda count, _: come(count),
                    self._job.check,
                    SessionGiver(self._session, self._job.check),
                    self._asked.keep_git_dir,
                    self._asked.subdir,
                    self._asked.checksum,
                    not self._asked.own_dockerfile,
                    HOST_NETWORK in self._job.allowed,
                )
                context = opened(self._data_root, body or _Nothing(), remote, self._asked.filename, how)
                return self._held.enter_context(context)

    def dockerfile(self) -> tuple[bytes, str | None]:
        """The Dockerfile, and the text of a .dockerignore of its own, if it has one. Raises NotFound."""
        path = posixpath.normpath(self._asked.filename)
        own = f"{path}{_IGNORE}"
        title = f"[internal] load build definition from {posixpath.basename(path)}"
        others = (path.lower(),) if path == _DOCKERFILE else ()
        wanted = filesync.Wanted(self._asked.dockerfile_key, (path, own, *others))
        with self._fetched(title, "dockerfile", wanted) as root:
            text = next((text for name in (path, *others) if (text := _text(root, name)) is not None), None)
            ignored = _text(root, own)
        if text is None:
            raise NotFound(f"failed to read dockerfile: open {self._asked.filename}: no such file or directory")
        return text, None if ignored is None else ignored.decode("utf-8", "surrogateescape")

    def ignored(self, name: str = "", title: str = f"[internal] load {_IGNORE}") -> str:
        """The text of a directory's .dockerignore, empty where it has none.

        name: of the directory, empty for the context; title: of the vertex that tells of it
        """
        wanted = filesync.Wanted(name or self._asked.context_key, (_IGNORE,))
        with self._fetched(title, "context", wanted) as root:
            return (_text(root, _IGNORE) or b"").decode("utf-8", "surrogateescape")

    def context(self, dockerfile: bytes, ignored: str) -> Context:
        """The context as a .dockerignore leaves it. ignored: the text of that"""
        wanted = filesync.Wanted(self._asked.context_key, (), Ignore(ignored).patterns)
        root = self._held.enter_context(self._fetched("[internal] load build context", "context", wanted))
        room = self._held.enter_context(scratch(self._data_root))
        return Context(root, room, dockerfile, self._asked.filename)

    @contextlib.contextmanager
    def _fetched(self, title: str, what: str, wanted: filesync.Wanted) -> Iterator[int]:
        """The descriptor of a mirror that is the same as the client's directory, which no other build uses meanwhile.

        title: of the vertex that tells of it; what: is transferred, in words
        """
        other = self._asked.sessions.get(wanted.name, self._session.id)
        session = self._session if other == self._session.id else sessions.find(other)
        key = (session.shared_key or session.id, wanted.name, "\n".join(wanted.followed))
        self._job.captured.local(wanted.name)
        with mirrors.held(self._data_root, key, f"local source for {wanted.name}", self._job.check) as mirror:
            with told.transfer(self._job.progress, title, what) as come:
                filesync.receive(session.link, wanted, mirror, come, self._job.check)
            yield mirror.root


def _text(root: int, path: str) -> bytes | None:
    """The bytes of a file of a mirror, None where there is none. Raises Invalid for what is no file, or too large."""
    try:
        return text_of(root, path)
    except (OSError, ValueError):
        return None


class _Nothing:
    """The body of a request that has none."""

    def read(self, _count: int) -> bytes:
        return b""


class _Upload:
    """The bytes that the client has under one of its own URLs; a `Source` for the time of a `with`."""

    def __init__(self, session: Session, url: str, check: Callable[[], None]) -> None:
        parts = urlsplit(url)
        fields = [(b"urlpath", parts.path.encode()), (b"urlhost", parts.netloc.encode())]
        self._call = Outgoing[BytesMessage, BytesMessage](
            session.link, methods.UPLOAD + "Pull", BytesMessage, BytesMessage, fields, check
        )
        self._left = b""

    def __enter__(self) -> "_Upload":
        self._call.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._call.__exit__(None, None, None)

    def read(self, count: int) -> bytes:
        """Up to `count` bytes; none at the end. Raises Lost, `grpc.Failed`."""
        while not self._left:
            message = self._call.receive()
            if message is None:
                return b""
            self._left = message["data"]
        data, self._left = self._left[:count], self._left[count:]
        return data
