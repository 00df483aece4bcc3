"""The verb `engine exec`: runs a command in a running container, at this terminal or on its own.

Runs in the client's one thread.
"""

import os
import sys
from collections.abc import Sequence

from engine.client.api import Api, ApiError, container_path
from engine.client.container import envfiles
from engine.client.container.attached import Manner, run_exec
from engine.client.terminal import DETACH_KEYS, detach_keys, need_terminal, size
from engine.client.transport import Object
from engine.commandline import Given, Option, given_text, given_texts
from engine.errors import Invalid

OPTIONS = (
    Option("detach", "Detached mode: run command in the background", short="d", kind="flag", default=False),
    Option("detach-keys", "Override the key sequence for detaching a container"),
    Option("env", "Set environment variables", short="e", kind="list", default=(), value="list"),
    Option("env-file", "Read in a file of environment variables", kind="list", default=(), value="list"),
    Option("interactive", "Keep STDIN open even if not attached", short="i", kind="flag", default=False),
    Option("privileged", "Give extended privileges to the command", kind="flag", default=False),
    Option("tty", "Allocate a pseudo-TTY", short="t", kind="flag", default=False),
    Option("user", 'Username or UID (format: "<name|uid>[:<group|gid>]")', short="u"),
    Option("workdir", "Working directory inside the container", short="w"),
)
_CANNOT = (126, 127)


def exec_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine exec CONTAINER COMMAND [ARG...]`: returns the command's exit code. Raises Invalid, ApiError."""
    container, *command = others
    tty, stdin, detached = (bool(given.get(name)) for name in ("tty", "interactive", "detach"))
    if tty and stdin and not detached:
        try:
            need_terminal(0)
        except Invalid as error:
            print(error, file=sys.stderr)
            return 1
    keys = detach_keys(given_text(given, "detach-keys")) if "detach-keys" in given else DETACH_KEYS
    window = {"ConsoleSize": list(found)} if tty and (found := size(1)) is not None else {}
    body: Object = {
        "Cmd": command,
        "Tty": tty,
        "AttachStdin": stdin and not detached,
        "AttachStdout": not detached,
        "AttachStderr": not detached,
        "Env": envfiles.settings(given_texts(given, "env-file"), given_texts(given, "env"), os.environ),
        "User": given_text(given, "user"),
        "WorkingDir": given_text(given, "workdir"),
        "Privileged": bool(given.get("privileged")),
        **window,
    }
    identity = api.call("POST", container_path(container, "exec"), None, body)["Id"]
    start = {"Detach": detached, "Tty": tty, **window}
    try:
        if detached:
            api.call("POST", f"/exec/{identity}/start", None, start)
            return 0
        status = run_exec(api, identity, Manner(tty, stdin, keys), start)
    except ApiError as error:
        code = api.call("GET", f"/exec/{identity}/json")["ExitCode"]
        if code not in _CANNOT:
            raise
        print(f"Error response from daemon: {error}", file=sys.stderr)
        return int(code)
    return int(api.call("GET", f"/exec/{identity}/json")["ExitCode"]) if status is None else status


FUNCTIONS = {"exec": (exec_verb, OPTIONS)}
