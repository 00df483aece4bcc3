"""The failures (statuses above 499) that are meant: dockerd gives them too, and they say what is wrong.

Data, and the look into it. What is in no row is a flaw of the engine; `internal error` never has a row.
"""

import re
from typing import NamedTuple


class Row(NamedTuple):
    """Operations and words as patterns, and the reason: a call of the transcript, or what dockerd does."""

    status: int
    operation: str
    words: str
    reason: str


_CREATE = r"POST /containers/create"
_START = r"POST /containers/{id}/start"
_CREATED = r"^failed to create task for container: failed to create shim task: OCI runtime create failed: .*"
_REGISTRY = r"POST /auth|GET /distribution/|GET /images/search|POST /images/|POST /build|\S+ /plugins/"

ROWS = (
    Row(503, r"\S+ /(swarm|nodes|services|tasks|secrets|configs|volumes)", r"^This node is not ", "289: no swarm"),
    Row(503, r"PUT /volumes/", r"^volume update only valid for cluster volumes", "no swarm"),
    Row(
        501,
        r"POST /(session|swarm/init|swarm/join|plugins/create|plugins/pull)",
        r" is not built in this engine: ",
        "README, Limits: refused in words",
    ),
    Row(501, r"POST /build", r"is not built in this engine", "BuildKit's builder"),
    Row(501, r"POST /(containers|commit)", r"not built (yet )?in this engine", "README, Limits: refused in words"),
    Row(
        500,
        r"GET /(services|tasks)/{id}/logs",
        r"^Bad parameters: you must choose at least one stream",
        "a plain error",
    ),
    Row(500, r"\S+ /plugins", r"^(invalid reference format|repository name must |strconv\.Atoi: )", "plain errors"),
    Row(500, _REGISTRY, r"dial tcp.*: (no such host|connect: [a-z ]+)$", "220, 228-230: a registry that is not there"),
    Row(500, _REGISTRY, r"^unsupported URL ", "a port past 65535: dockerd finds it when it dials"),
    Row(
        500,
        r"POST /(images/create|build)",
        r'Get ".*": (http: no Host in request URL|unsupported protocol scheme ")',
        "222, and dockerd's answers in tests/unit/images/archives/test_weburl.py",
    ),
    Row(500, r"GET /distribution/", r"^no manifest found for full image ID$", "a plain error"),
    Row(
        500,
        r"POST /build",
        r"^(Cannot locate specified Dockerfile|forbidden path outside |unexpected error reading Dockerfile: )",
        "245",
    ),
    Row(500, r"POST /build", r"^remoteURL \(", "a plain error"),
    Row(
        500,
        r"POST /build|PUT /containers/{id}/archive|POST /images",
        r"unexpected EOF|^damaged |invalid tar header",
        "197, 246",
    ),
    Row(
        500,
        r"\S+ /containers/{id}/archive",
        r"^lstat .*(file name too long|invalid argument|not a directory)$|^$",
        "as lstat(2) answers",
    ),
    Row(500, r"GET /containers/{id}/top", r"^(error: |Couldn't find PID field)", "what ps(1) says"),
    Row(500, r"DELETE /containers/{id}", r"^Conflict, cannot remove the default link name", "a plain error"),
    Row(500, r"POST /containers/{id}/exec", r"^Invalid escape keys ", "a plain error"),
    Row(500, r"POST /exec/{id}/resize", r"^timeout waiting for exec session ready$", "an exec that was not started"),
    Row(500, r"POST /containers/{id}/unpause", r" is not paused$", "170"),
    Row(500, r"POST /networks/{id}/disconnect", r" is not connected to ", "269"),
    Row(500, _CREATE, r"^invalid volume specification: |^invalid mode: ", "43, 44"),
    Row(500, _CREATE, r"^invalid --security-opt ", "60"),
    Row(500, _CREATE, r"^the volumes of the container cannot be filled: file name too long", "lstat(2) in the image"),
    Row(500, r"POST /volumes/create", r"error while creating volume root path .*: file name too long", "mkdir(2)"),
    Row(500, _START, r"^error while resolving symlinks in combined path ", "a subpath through a file"),
    Row(
        500,
        _START,
        r"^(joining|stat|error gathering device information|could not select device driver|failed to discover) ",
        "41, 62",
    ),
    Row(
        500,
        _START,
        _CREATED + "(error mounting|hostname: invalid argument|protect: |(wrong|error setting) rlimit|sysctl )",
        "74",
    ),
    Row(500, _START, r"^failed to join PID namespace: ", "a container that does not run"),
    Row(500, _START, r"^(unable to find (user|group) |uids and gids must be in range)", "93"),
    Row(
        500, _START, r"^failed to create task for container: failed to initialize logging driver: ", "values of options"
    ),
    Row(
        500,
        _START + r"|POST /containers/{id}/update",
        r"cgroup .*: (invalid argument|permission denied)$",
        "the kernel's word",
    ),
    Row(
        500,
        r"POST /containers/{id}/update",
        r"^Cannot update container .*: (stat .*|.* is not a block device)$",
        "the pace of a device that is not there",
    ),
)


def covers(operation: str, status: int, words: str) -> bool:
    """Whether an answer is meant."""
    return "internal error" not in words and any(
        row.status == status and re.match(row.operation, operation) and re.search(row.words, words, re.DOTALL)
        for row in ROWS
    )
