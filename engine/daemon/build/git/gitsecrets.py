"""What git needs for a repository and must not have among its arguments: a token or a header of the secrets of the
build's client, the credentials of the address, and the way to an agent.

Runs on the thread that builds. The names of the secrets are BuildKit's: GIT_AUTH_HEADER.HOST, GIT_AUTH_TOKEN.HOST, and
the same without the host.
"""

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from engine.daemon.build.git.gitaddress import GitAddress
from engine.daemon.build.graph.work import Giver
from engine.dataclass import dataclass
from engine.errors import Invalid

_HEADER, _TOKEN = "GIT_AUTH_HEADER", "GIT_AUTH_TOKEN"
_AGENT = "default"
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
    if address.scheme == "ssh" and giver is not None:
        with tempfile.TemporaryDirectory(prefix="engine-agent-") as place:
            path = os.path.join(place, "agent")
            with giver.agent(_AGENT, path) as there:
                yield Given({}, path if there else "")
    elif address.scheme in ("http", "https"):
        header = (_header(giver, address.host) if giver is not None else "") or _of_the_address(address.userinfo)
        scope = next((prefix for prefix in _SHARED if address.remote.startswith(prefix)), address.remote)
        yield Given({f"http.{scope}.extraHeader": f"Authorization: {header}"} if header else {})
    else:
        yield Given({})


def _of_the_address(userinfo: str) -> str:
    """The value of the field Authorization for the credentials that an address has, empty for none."""
    name, _, password = (unquote_to_bytes(part) for part in userinfo.partition(":"))
    return f"basic {base64.b64encode(name + b':' + password).decode()}" if userinfo else ""


def _header(giver: Giver, host: str) -> str:
    """The value of the field Authorization, empty where the client has none."""
    for name in (f"{_HEADER}.{host}", f"{_TOKEN}.{host}", _HEADER, _TOKEN):
        data = giver.secret(name)
        if data is None:
            continue
        if len(data) > _LONGEST or any(byte < 32 or byte == 127 for byte in data.strip()):
            raise Invalid(f"the secret {name} is no token: it is too long, or has characters that a header cannot have")
        text = data.strip().decode("utf-8", "surrogateescape")
        if name.startswith(_TOKEN):
            token = base64.b64encode(b"x-access-token:" + data.strip()).decode()
            return f"basic {token}"
        return text
    return ""
