"""Finds plugins by their names: a socket NAME.sock, or a spec file NAME.spec or NAME.json, in one of some directories.

Used by the daemon's threads. docs.docker.com/engine/extend/plugin_api ("Plugin discovery") says how; a file may also
lie in a directory of the plugin's name. The directories are the administrator's. A name comes from a client, so only
those are looked up that lead nowhere else.
"""

import json
import os
import re
import stat

from engine.asking import addressing
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel import reasons

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
_SOCKET, _SPEC, _JSON = ".sock", ".spec", ".json"
_LARGEST = 64 * 1024  # bytes of a spec file
_MOST = 1000  # entries of a directory
_PORTS = {"tcp": "80", "http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a plugin listens. kind: unix or tcp; place: the socket's path, or HOST:PORT

    secure: it speaks TLS; authority, certificate, key, checked: as in `secure.Certificates`
    """

    kind: str
    place: str
    secure: bool = False
    authority: str = ""
    certificate: str = ""
    key: str = ""
    checked: bool = True


def names(directories: tuple[str, ...]) -> list[str]:
    """The names of all plugins that are in these directories, sorted; a directory that cannot be read has none."""
    found: set[str] = set()
    for directory in directories:
        for entry in _entries(directory):
            stem, kind = os.path.splitext(entry)
            path = os.path.join(directory, entry)
            if not kind or not _is_file(path, kind):
                stem = entry if any(_is_file(path, each, inside=entry) for each in (_SOCKET, _SPEC, _JSON)) else ""
            if _NAME.fullmatch(stem):
                found.add(stem)
    return sorted(found)


def find(directories: tuple[str, ...], name: str) -> Address:
    """Where the plugin of this name listens. Raises NotFound, SystemFailure for a spec file that makes no sense."""
    if _NAME.fullmatch(name):
        for kind in (_SOCKET, _SPEC, _JSON):
            for directory in directories:
                for path in (os.path.join(directory, name + kind), os.path.join(directory, name, name + kind)):
                    if _is_file(path, kind):
                        return Address("unix", path) if kind == _SOCKET else _READERS[kind](path)
    raise NotFound(f'plugin "{name}" not found')


def _entries(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as found:
            return sorted(entry.name for _, entry in zip(range(_MOST), found, strict=False))
    except OSError:  # it is not there, or is somebody else's
        return []


def _is_file(path: str, kind: str, inside: str = "") -> bool:
    """Whether the path is a socket, for the kind `.sock`, or a file, for the others.

    inside: look for a file of this name in the directory `path`
    """
    try:
        mode = os.stat(os.path.join(path, inside + kind) if inside else path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(mode) if kind == _SOCKET else kind in _READERS and stat.S_ISREG(mode)


def _read(path: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError as error:
        raise SystemFailure(f"open {path}: {reasons.of(error)}") from error


def _of_spec(path: str) -> Address:
    return _address(path, _read(path).strip(), {})


def _of_json(path: str) -> Address:
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise SystemFailure(f"the plugin's file {path} is no JSON: {error}") from error
    found = value if isinstance(value, dict) else {}
    told = found.get("TLSConfig")
    return _address(path, str(found.get("Addr", "")), told if isinstance(told, dict) else {})


def _address(path: str, text: str, tls: dict[str, object]) -> Address:
    try:
        url = addressing.parsed(text)
    except Invalid as error:
        raise SystemFailure(str(error)) from error
    if not url.scheme:
        raise SystemFailure(f"the plugin's file {path}: Unknown protocol")
    if url.scheme == "unix":
        return Address("unix", url.host + url.rest)
    if url.scheme not in _PORTS:
        raise SystemFailure(f"the plugin's file {path}: unsupported protocol {url.scheme}")
    place = addressing.joined(url.host, url.port or _PORTS[url.scheme])
    authority, certificate, key = (str(tls.get(name) or "") for name in ("CAFile", "CertFile", "KeyFile"))
    # Without an authority dockerd believes every certificate.
    checked = bool(authority) and not tls.get("InsecureSkipVerify")
    return Address("tcp", place, url.scheme == "https", authority, certificate, key, checked)


_READERS = {_SPEC: _of_spec, _JSON: _of_json}
