"""The verbs `engine run` and `engine create`: make a container, and for `run` start it and stay with it.

Runs in the client's one thread.
"""

import sys
from collections.abc import Sequence

from engine.client.api import Api, ApiError, container_path
from engine.client.container.attached import CANNOT_RUN, Manner, run_attached
from engine.client.container.createoptions import OTHERS, RUN_OPTIONS, SETTINGS
from engine.client.container.creating import create
from engine.client.helptexts import ADVICE_OF_RUN as ADVICE
from engine.client.terminal import DETACH_KEYS, detach_keys, need_terminal
from engine.commandline import Given, given_text
from engine.errors import EngineError, Invalid

CREATE_OPTIONS = tuple(sorted((*(each.option for each in SETTINGS), *OTHERS), key=lambda option: option.name))
OPTIONS = tuple(sorted((*CREATE_OPTIONS, *RUN_OPTIONS), key=lambda option: option.name))


def run_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine run IMAGE [COMMAND] [ARG...]`: returns the container's exit code. Raises Invalid, EngineError."""
    image, *command = others
    attached = not given.get("detach")
    if "attach" in given and not attached:
        raise Invalid("conflicting options: cannot specify both --attach and --detach")
    if attached and given.get("tty") and given.get("interactive"):
        try:
            need_terminal(0)
        except Invalid as error:
            print(error, file=sys.stderr)
            return 1
    keys = detach_keys(given_text(given, "detach-keys")) if "detach-keys" in given else DETACH_KEYS
    container, body = create(api, image, command, given, attached)
    start = container_path(container, "start")
    if attached:
        removed = body["HostConfig"]["AutoRemove"]
        proxy = given.get("sig-proxy", True) is True
        outputs = tuple(name for name in ("stdout", "stderr") if body[f"Attach{name.title()}"])
        condition = "removed" if removed else "next-exit"
        manner = Manner(body["Tty"], body["AttachStdin"], keys, proxy, condition, outputs, ADVICE)
        return run_attached(api, container, manner, lambda: api.call("POST", start))
    try:
        api.call("POST", start)
    except ApiError as error:
        print(f"engine: Error response from daemon: {error}{ADVICE}", file=sys.stderr)
        return _failed(api, container)
    print(container)
    return 0


def create_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine create IMAGE [COMMAND] [ARG...]`: print the new container's id. Raises Invalid, EngineError."""
    image, *command = others
    container, _ = create(api, image, command, given, attached=True)
    print(container)
    return 0


def _failed(api: Api, container: str) -> int:
    """126 or 127 where the command was at fault; 125 otherwise, or where the container is gone."""
    try:
        code: int = api.call("GET", container_path(container, "json"))["State"]["ExitCode"]
    except EngineError:
        return CANNOT_RUN
    return code if code in (126, 127) else CANNOT_RUN


FUNCTIONS = {"run": (run_verb, OPTIONS), "create": (create_verb, CREATE_OPTIONS)}
