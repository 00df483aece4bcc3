"""What git needs for a repository and must not have among its arguments: a token or a header of the secrets of the
build's client, the credentials of the address, and the way to an agent.

Runs on the thread that builds. The names of the secrets are BuildKit's, GIT_AUTH_HEADER.HOST, GIT_AUTH_TOKEN.HOST, and
the same without the host, unless a graph says others.
"""

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from engine.daemon.builder.git.gitaddress import GitAddress
from engine.daemon.builder.git.gitprogram import ssh
from engine.daemon.builder.graph.work import Giver
from engine.dataclass import dataclass
from engine.errors import Invalid

_LONGEST = 64 * 1024
# A token for one of these serves all repositories of it, so that submodules are fetched with it too.
_SHARED = ("https://github.com/", "https://www.github.com/")


@dataclass(frozen=True, slots=True)
class Given:
    """configuration: of git, by name; agent: the socket of an agent, empty for none"""

    configuration: dict[str, str]
    agent: str = ""


@contextlib.contextmanager
def given(giver: Giver | None, address: GitAddress) -> Iterator[Given]:
    """What the client gives, for the time of the context. Raises Invalid, and what the giver raises."""
    if address.scheme == "ssh":
        with tempfile.TemporaryDirectory(prefix="engine-agent-") as place:
            configuration = _known_hosts(address.known_hosts, place)
            path = os.path.join(place, "agent")
            with giver.agent(address.agent, path) if giver is not None else contextlib.nullcontext(False) as there:
                yield Given(configuration, path if there else "")
    elif address.scheme in ("http", "https"):
        header = (_header(giver, address) if giver is not None else "") or _of_the_address(address.userinfo)
        scope = next((prefix for prefix in _SHARED if address.remote.startswith(prefix)), address.remote)
        yield Given({f"http.{scope}.extraHeader": f"Authorization: {header}"} if header else {})
    else:
        yield Given({})


def _of_the_address(userinfo: str) -> str:
    """The value of the field Authorization for the credentials that an address has, empty for none."""
    name, _, password = (unquote_to_bytes(part) for part in userinfo.partition(":"))
    return f"basic {base64.b64encode(name + b':' + password).decode()}" if userinfo else ""


def _known_hosts(known: str, place: str) -> dict[str, str]:
    """The configuration by which ssh speaks with hosts of these keys alone; nothing for any host."""
    if not known:
        return {}
    path = os.path.join(place, "known_hosts")
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(known)
    return {"core.sshCommand": ssh(path)}


def _header(giver: Giver, address: GitAddress) -> str:
    """The value of the field Authorization, empty where the client has none."""
    header, token, host = address.header_secret, address.token_secret, address.host
    wanted = ((f"{header}.{host}", False), (f"{token}.{host}", True), (header, False), (token, True))
    for name, is_token in wanted:
        data = giver.secret(name)
        if data is None:
            continue
        if len(data) > _LONGEST or any(byte < 32 or byte == 127 for byte in data.strip()):
            raise Invalid(f"the secret {name} is no token: it is too long, or has characters that a header cannot have")
        text = data.strip().decode("utf-8", "surrogateescape")
        if is_token:
            token = base64.b64encode(b"x-access-token:" + data.strip()).decode()
            return f"basic {token}"
        return text
    return ""
