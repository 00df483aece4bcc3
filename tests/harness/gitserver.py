"""A server of git repositories on a loopback port, for builds that fetch from one: git's own, behind HTTP."""

import contextlib
import http.server
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

DATE = "2020-02-03T04:05:06Z"
SECONDS = 1580702706  # the same in seconds


@dataclass
class GitServer:
    """place: of the repositories; token: that it wants as a password, if any; asked: the fields Authorization it got

    look: called while a request waits for its answer, and git for this server; dumb: it only has files
    """

    place: Path
    port: int = 0
    token: str = ""
    asked: list[str] = field(default_factory=list)
    look: Callable[[], object] = lambda: None
    dumb: bool = False

    def url(self, name: str) -> str:
        """The address of a repository."""
        return f"http://127.0.0.1:{self.port}/{name}.git"

    def repository(self, name: str) -> "Repository":
        """A new one, without a commit."""
        place = self.place / f"{name}.git"
        place.mkdir()
        made = Repository(place)
        made("init", "-q", "-b", "main")
        made("config", "http.receivepack", "false")
        return made


@dataclass
class Repository:
    """One repository, with its files. `it(...)` runs git in it."""

    place: Path

    def __call__(self, *words: str) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": "/dev/null",
            **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "one"),
            **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "one@example.com"),
            **dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), DATE),
            "GIT_ALLOW_PROTOCOL": "file:http",
        }
        done = subprocess.run(["git", *words], cwd=self.place, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, files: dict[str, str] | None = None) -> str:
        """The name of a new commit with these files beside those that are there."""
        for name, text in (files or {}).items():
            path = self.place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", "words")
        return self("rev-parse", "HEAD")


@contextlib.contextmanager
def serving(place: Path, listening: socket.socket | None = None) -> Iterator[GitServer]:
    """As long as the context lasts. listening: a bound socket, perhaps of another namespace"""
    served = GitServer(place)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            served.asked.append(given)
            served.look()
            if served.token and given != served.token:
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": "/dev/null",
                "GIT_PROJECT_ROOT": str(served.place),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": "" if served.dumb else query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(length),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                **{f"GIT_CONFIG_{kind}_0": value for kind, value in (("KEY", "safe.directory"), ("VALUE", "*"))},
                "GIT_CONFIG_COUNT": "1",
            }
            done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True)
            head, _, answer = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with contextlib.ExitStack() as stack:
        own = listening or stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server = http.server.ThreadingHTTPServer(own.getsockname(), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = own.dup()
        server.socket.listen()
    served.port = server.socket.getsockname()[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
