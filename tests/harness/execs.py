"""Execs over raw HTTP, for tests: create one, start it attached, and read what it said and how it ended."""

from typing import NamedTuple

from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.http import Connection

ATTACHED = {"AttachStdout": True, "AttachStderr": True}
INTERACTIVE = {**ATTACHED, "AttachStdin": True}


class Said(NamedTuple):
    """What an exec said and its exit code."""

    code: int | None
    out: str
    err: str


def create(daemon: Daemon, container: str, *argv: str, **body: object) -> str:
    """Create an exec, attached to both outputs unless the body says otherwise; its id."""
    answer = daemon.request("POST", f"/containers/{container}/exec", {"Cmd": list(argv), **ATTACHED, **body})
    assert answer.status == 201, answer
    return answer.json()["Id"]


def inspect(daemon: Daemon, exec_id: str) -> dict:
    """What the API says about an exec."""
    answer = daemon.request("GET", f"/exec/{exec_id}/json")
    assert answer.status == 200, answer
    return answer.json()


def attached(
    daemon: Daemon, exec_id: str, tty: bool = False, upgrade: bool = True, timeout: float = 60, **body: object
) -> Connection:
    """Start an exec; the connection that has become its stream."""
    connection = daemon.connection(timeout)
    headers = {"Connection": "Upgrade", "Upgrade": "tcp"} if upgrade else {}
    status, _ = connection.open_stream("POST", f"/exec/{exec_id}/start", {"Tty": tty, **body}, headers)
    assert status == (101 if upgrade else 200)
    return connection


def run(daemon: Daemon, container: str, *argv: str, stdin: bytes | None = None, **body: object) -> Said:
    """Create, start attached, read to the end, inspect."""
    exec_id = create(daemon, container, *argv, **{"AttachStdin": stdin is not None, **body})
    tty = bool(body.get("Tty"))
    with attached(daemon, exec_id, tty) as connection:
        if stdin is not None:
            connection.send(stdin)
            connection.half_close()
        data = connection.read_to_end()
    code = inspect(daemon, exec_id)["ExitCode"]
    if tty:
        return Said(code, data.decode(), "")
    return Said(code, frames.stdout(data).decode(), frames.stderr(data).decode())


def shell(daemon: Daemon, container: str, script: str, **body: object) -> str:
    """Run `sh -c script`, which must succeed silently on stderr; its standard output, stripped."""
    said = run(daemon, container, "sh", "-c", script, **body)
    assert said.code == 0 and not said.err, said
    return said.out.strip()
