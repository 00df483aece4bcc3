"""Declares the daemon's options about the sockets on which it listens, and about TLS on them.

Pure. Names, keys and rules are dockerd's, with one difference: a TCP socket that any client may use is refused, unless
the administrator has said so (`--tls=false` or `--tlsverify=false`). Checks that need a look at the host (does the
group exist, can the certificate be read) are made where the sockets are opened.
"""

import os
from collections.abc import Callable, Mapping

from engine.commandline import Option, Value
from engine.errors import Invalid
from engine.literals import LAST_PORT, natural
from engine.settings import whose
from engine.settings.network import is_ipv6
from engine.settings.whose import DOCKERD, default_host

TLS_FILES = ("tlscacert", "tlscert", "tlskey")
TLS_PORT = 2376
_DOCKERDS_FILES = {"tlscacert": "ca.pem", "tlscert": "cert.pem", "tlskey": "key.pem"}


def host(text: str) -> str:
    """An address to listen on, completed with its defaults. Raises Invalid."""
    kind, separator, rest = text.strip().partition("://")
    if not separator and ":" in kind:
        kind, rest = "tcp", kind
    if kind not in _HOST_KINDS:
        raise Invalid(f"invalid bind address ({text}): give unix://PATH, fd:// or tcp://HOST:PORT")
    return _HOST_KINDS[kind](rest, text)


def _unix_host(rest: str, text: str) -> str:
    if rest and not rest.startswith("/"):
        raise Invalid(f"the path of a Unix socket must be absolute: {text}")
    if rest:
        return f"unix://{rest}"
    return default_host(whose.owner(os.environ, os.geteuid()), os.environ, whose.program())


def _activated_host(rest: str, text: str) -> str:
    return f"fd://{rest}"


def _tcp_host(rest: str, text: str) -> str:
    name, separator, port = rest.rpartition(":")
    if not separator or (rest.startswith("[") and rest.endswith("]")):
        name, port = rest, str(TLS_PORT)
    if ":" in name and is_ipv6(name):  # written without brackets, and with a port
        name = f"[{name}]"
    if natural(port, LAST_PORT) is None or "/" in name or (":" in name) != ("[" in name):
        raise Invalid(f"invalid bind address ({text}): give tcp://HOST:PORT")
    return f"tcp://{name or '0.0.0.0'}:{port}"


_HOST_KINDS: dict[str, Callable[[str, str], str]] = {"unix": _unix_host, "fd": _activated_host, "tcp": _tcp_host}


def path(text: str) -> str:
    """An absolute path, or empty. Raises Invalid."""
    if "\0" in text:
        raise Invalid("a path cannot contain a NUL character")
    return os.path.abspath(text) if text else ""


OPTIONS = (
    Option(
        "host",
        "Where to listen: unix://PATH, fd:// (sockets from systemd), tcp://HOST:PORT (with --tlsverify); repeatable",
        short="H",
        kind="list",
        check=host,
        default=(default_host(0, {}),),
        value="address",
        key="hosts",
    ),
    Option("group", "Group that may use the Unix socket (mode 0660)", short="G", value="group", key="group"),
    Option("tls", "Use TLS on tcp://, as --tlsverify does", kind="flag", default=False, key="tls"),
    Option(
        "tlsverify",
        "Use TLS on tcp:// and ask each client for a certificate",
        kind="flag",
        default=False,
        key="tlsverify",
    ),
    Option("tlscacert", "Trust the clients' certificates signed by this CA", check=path, value="path", key="tlscacert"),
    Option("tlscert", "The daemon's TLS certificate", check=path, value="path", key="tlscert"),
    Option("tlskey", "The daemon's TLS key", check=path, value="path", key="tlskey"),
)


def complete(values: dict[str, Value], told: Mapping[str, Value], environ: Mapping[str, str], name: str) -> bool:
    """Decide, in place, what `tls` and `tlsverify` mean together; True where the administrator wants TCP without both.

    values: all settings by key; told: those that somebody has given; name: of the program, see `whose.program`
    Raises Invalid.
    """
    # As in dockerd, who speaks of --tlsverify at all wants TLS, and who wants TLS wants it with verification.
    values["tls"] = bool(values["tls"]) or "tlsverify" in told or _asked_by_variable(environ, name)
    values["tlsverify"] = bool(told.get("tlsverify", values["tls"]))
    if values["tls"] and name == DOCKERD:
        _complete_as_dockerd(values, told, environ)
    wanted = TLS_FILES if values["tlsverify"] else TLS_FILES[1:]
    missing = [f"--{each}" for each in wanted if not values[each]]
    if values["tls"] and missing:
        raise Invalid(f"--{'tlsverify' if values['tlsverify'] else 'tls'} needs {', '.join(missing)} too")
    unguarded = not values["tlsverify"] and ("tls" in told or "tlsverify" in told)
    hosts = values["hosts"]
    for address in hosts if isinstance(hosts, tuple) else ():
        if address.startswith("tcp://") and not values["tlsverify"] and not unguarded:
            raise Invalid(
                f"{address} without --tlsverify would give root to everyone who can reach it: refused."
                " With --tls=false or --tlsverify=false it is done all the same"
            )
    return unguarded


def _asked_by_variable(environ: Mapping[str, str], name: str) -> bool:
    return name == DOCKERD and bool(environ.get("DOCKER_TLS_VERIFY"))


def _complete_as_dockerd(values: dict[str, Value], told: Mapping[str, Value], environ: Mapping[str, str]) -> None:
    """Take dockerd's places for the files of TLS, and its address for a daemon that is told of none."""
    home = environ.get("DOCKER_CONFIG") or os.path.join(environ.get("HOME") or "/", ".docker")
    directory = environ.get("DOCKER_CERT_PATH") or home
    for key, file in _DOCKERDS_FILES.items():
        values[key] = values[key] or os.path.join(directory, file)
    if "hosts" not in told:
        values["hosts"] = (f"tcp://localhost:{TLS_PORT}",)
