"""A plugin as docker's protocol describes it: an HTTP server on a Unix socket that answers POSTs with JSON.

It runs in threads of the test and keeps what it was asked. What a method answers is a function of the test's.
"""

import contextlib
import http.server
import json
import os
import shutil
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Method = Callable[[Object], Any]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """A call."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = self.path.lstrip("/")
        plugin = self.server.plugin
        arguments = json.loads(body) if body else {}
        plugin.calls.append((name, arguments))
        method = plugin.methods.get(name)
        answer = method(arguments) if method is not None else (404, b"no such method")
        status, data = answer if isinstance(answer, tuple) else (200, answer)
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        with contextlib.suppress(OSError):  # the caller has left
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.docker.plugins.v1.2+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def address_string(self) -> str:
        """A Unix socket has no host."""
        return "daemon"

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """The caller has left."""


class Plugin:
    """A plugin that has said what it implements. methods: by their names, what they answer to an object

    An answer is an object, or (status, bytes). calls: (name, arguments) of all that it was asked, in order
    """

    def __init__(self, *implements: str) -> None:
        self.calls: list[tuple[str, Object]] = []
        self.methods: dict[str, Method] = {"Plugin.Activate": lambda _: {"Implements": list(implements)}}

    def asked(self, name: str) -> list[Object]:
        """The arguments of each call of this method."""
        return [arguments for each, arguments in self.calls if each == name]

    @contextlib.contextmanager
    def serving(self, socket_path: Path) -> Iterator["Plugin"]:
        """While it listens at this path."""
        server = _Server(str(socket_path), _Handler)
        server.plugin = self
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            socket_path.unlink(missing_ok=True)


class Volumes(Plugin):
    """A volume driver that keeps its volumes as directories below one of the test's."""

    def __init__(self, root: Path) -> None:
        super().__init__("VolumeDriver")
        self.root = root
        self.volumes: dict[str, Object] = {}
        self.mounted: dict[str, set[str]] = {}
        self.methods |= {
            "VolumeDriver.Create": self._create,
            "VolumeDriver.Remove": self._remove,
            "VolumeDriver.Path": lambda asked: {"Mountpoint": self._path(asked["Name"])},
            "VolumeDriver.Mount": self._mount,
            "VolumeDriver.Unmount": self._unmount,
            "VolumeDriver.Get": self._get,
            "VolumeDriver.List": lambda _: {"Volumes": [self._shown(name) for name in self.volumes]},
            "VolumeDriver.Capabilities": lambda _: {"Capabilities": {"Scope": "global"}},
        }

    def place(self, name: str) -> Path:
        """The directory of a volume."""
        return self.root / name

    def _path(self, name: str) -> str:
        return str(self.place(name)) if self.mounted.get(name) else ""

    def _shown(self, name: str) -> Object:
        return {
            "Name": name,
            "Mountpoint": self._path(name),
            "CreatedAt": "2026-11-22T00:30:16.5Z",
            "Status": {"options": self.volumes[name]},
        }

    def _create(self, asked: Object) -> Object:
        if (asked["Opts"] or {}).get("fail"):
            return {"Err": asked["Opts"]["fail"]}
        self.volumes[asked["Name"]] = asked["Opts"] or {}
        os.makedirs(self.place(asked["Name"]), exist_ok=True)
        return {"Err": ""}

    def _remove(self, asked: Object) -> Object:
        if asked["Name"] not in self.volumes:
            return {"Err": "no such volume"}
        if self.mounted.get(asked["Name"]):
            return {"Err": "it is mounted"}
        del self.volumes[asked["Name"]]
        shutil.rmtree(self.place(asked["Name"]))
        return {}

    def _get(self, asked: Object) -> Object:
        if asked["Name"] not in self.volumes:
            return {"Err": "no such volume"}
        return {"Volume": self._shown(asked["Name"])}

    def _mount(self, asked: Object) -> Object:
        ids = self.mounted.setdefault(asked["Name"], set())
        assert asked["ID"] not in ids
        ids.add(asked["ID"])
        return {"Mountpoint": str(self.place(asked["Name"]))}

    def _unmount(self, asked: Object) -> Object:
        self.mounted[asked["Name"]].remove(asked["ID"])
        return {}
