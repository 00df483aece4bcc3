"""The verb `engine build`: sends a build context to the classic builder of the daemon, and shows the build.

Runs in the client's one thread.
"""

import os
import secrets
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence

from engine.client import progress
from engine.client.api import Api, ApiError
from engine.client.display import parse_size, shown_size
from engine.client.image import credentials
from engine.client.image.dockerignore import LARGEST, Ignored
from engine.client.showing.gofunctions import compact
from engine.client.tarstream import one_file, pieces, walked
from engine.client.terminal import size as terminal_size
from engine.client.transport import Object
from engine.client.valuechecks import mapped, number, pair, size, swap, ulimit, ulimits
from engine.commandline import Given, Option, given_text, given_texts
from engine.errors import Invalid, NotFound
from engine.literals import integer

OPTIONS = (
    Option("add-host", 'Add a custom host-to-IP mapping ("host:ip")', kind="list", default=(), value="list"),
    Option("build-arg", "Set build-time variables", kind="list", default=(), value="list"),
    Option("cache-from", "Images to consider as cache sources", kind="list", default=(), value="strings"),
    Option("cgroup-parent", 'Set the parent cgroup for the "RUN" instructions during build'),
    Option("cpu-period", "Limit the CPU CFS period", value="int", check=number),
    Option("cpu-quota", "Limit the CPU CFS quota", value="int", check=number),
    Option("cpu-shares", "CPU shares (relative weight)", short="c", value="int", check=number),
    Option("cpuset-cpus", "CPUs in which to allow execution (0-3, 0,1)"),
    Option("cpuset-mems", "MEMs in which to allow execution (0-3, 0,1)"),
    Option("file", 'Name of the Dockerfile (Default is "PATH/Dockerfile")', short="f"),
    Option("force-rm", "Always remove intermediate containers", kind="flag", default=False),
    Option("iidfile", "Write the image ID to the file"),
    Option("label", "Set metadata for an image", kind="list", default=(), value="list", check=pair),
    Option("memory", "Memory limit", short="m", value="bytes", check=size),
    Option("memory-swap", "Memory plus swap: -1 to enable unlimited swap", value="bytes", check=swap),
    Option("network", "Set the networking mode for the RUN instructions during build", default="default"),
    Option("no-cache", "Do not use cache when building the image", kind="flag", default=False),
    Option("platform", "Set platform if server is multi-platform capable"),
    Option("pull", "Always attempt to pull a newer version of the image", kind="flag", default=False),
    Option("quiet", "Suppress the build output and print image ID on success", short="q", kind="flag", default=False),
    Option("rm", "Remove intermediate containers after a successful build", kind="flag", default=True),
    Option("shm-size", 'Size of "/dev/shm"', value="bytes", check=size),
    Option(
        "tag", 'Name and optionally a tag in the "name:tag" format', short="t", kind="list", default=(), value="list"
    ),
    Option("ulimit", "Ulimit options", kind="list", default=(), value="ulimit", check=ulimit),
    Option("target", "Set the target build stage to build."),
)
_DOCKERFILE, _IGNORE = "Dockerfile", ".dockerignore"
# The daemon fetches such a context: a repository, an archive or a Dockerfile.
_ELSEWHERE = ("http://", "https://", "git://", "ssh://", "git@", "github.com/")
_PIECE = 256 * 1024
_LARGEST_DOCKERFILE = 16 * 1024 * 1024
_PICTURE = 256 * 1024  # so many bytes between two pictures of how much was sent
_MAGIC = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")

Context = tuple[str, Iterable[bytes]]
"""The name of the Dockerfile in the context, and the context's tar."""


def build_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine build PATH | URL | -`: returns 0, or the code of the command that failed. Raises Invalid, ApiError."""
    quiet = bool(given.get("quiet"))
    path, named = others[0], given_text(given, "file")
    headers, body = credentials.all_header(os.environ), None
    if path.startswith(_ELSEWHERE):
        query = query_of(given, named) | {"remote": path}
    else:
        dockerfile, data = context(path, named)
        headers, body = {"Content-Type": "application/x-tar", **headers}, data if quiet else _counted(data)
        query = query_of(given, dockerfile)
    said: list[str] = []
    built: list[str] = []
    documents = _noted(api.progress("/build", query, body, headers), built)
    width = terminal_size(1) if sys.stdout.isatty() else None
    try:
        if quiet:
            # A quiet build says the image's id, or what has led to its failure.
            said += (str(document["stream"]) for document in documents if "stream" in document)
        else:
            progress.show(documents, sys.stdout, width[1] if width else None)
    except ApiError as error:
        if error.status:
            raise
        print("".join(said), end="", file=sys.stderr)
        print(error, file=sys.stderr)
        return error.code
    if quiet:
        print("".join(said), end="")
        built += said
    if path := given_text(given, "iidfile"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(built[-1].strip() if built else "")
    return 0


def query_of(given: Given, dockerfile: str) -> Object:
    """The query of POST /build for these options. Raises Invalid."""
    arguments = {
        name: value if separator else os.environ.get(name)
        for name, separator, value in (text.partition("=") for text in given_texts(given, "build-arg"))
    }
    query: Object = {
        "dockerfile": dockerfile,
        "t": given_texts(given, "tag"),
        "q": bool(given.get("quiet")),
        "nocache": bool(given.get("no-cache")),
        "pull": bool(given.get("pull")),
        "rm": "1" if given.get("rm", True) else "0",
        "forcerm": bool(given.get("force-rm")),
        "buildargs": compact(arguments) if arguments else None,
        "labels": compact(mapped(given_texts(given, "label"))) if "label" in given else None,
        "cachefrom": compact(list(given_texts(given, "cache-from"))) if "cache-from" in given else None,
        "extrahosts": given_texts(given, "add-host"),
        "ulimits": compact(ulimits(given_texts(given, "ulimit"))) if "ulimit" in given else None,
    }
    for name, (parameter, form) in _PARAMETERS.items():
        if name in given:
            query[parameter] = form(given_text(given, name))
    return query


def context(path: str, dockerfile: str) -> Context:
    """The build context at a path of this host, or at `-`: a tar, or a Dockerfile alone. Raises Invalid, NotFound.

    dockerfile: `-f`; `-` for the input, empty for the usual one
    """
    if path == "-":
        if dockerfile == "-":
            raise Invalid("invalid argument: can't use stdin for both build context and dockerfile")
        return _of_input(dockerfile)
    if not os.path.isdir(path):
        raise NotFound(f"unable to prepare context: path {path!r} not found")
    if dockerfile == "-":
        return _with(path, _input_text())
    place = os.path.realpath(dockerfile or os.path.join(path, _DOCKERFILE))
    if not os.path.isfile(place):
        where = os.path.abspath(dockerfile or os.path.join(path, _DOCKERFILE))
        raise NotFound(f"unable to prepare context: unable to evaluate symlinks in Dockerfile path: {where}")
    inside = os.path.relpath(place, os.path.realpath(path))
    if inside.startswith("../") or inside == "..":
        with open(place, "rb") as file:
            return _with(path, file.read(_LARGEST_DOCKERFILE))
    return inside, pieces(walked(path, "", _ignored(path, inside).choice), root_owns=True)


def _with(path: str, dockerfile: bytes) -> Context:
    """A directory's context with a Dockerfile that is not in it, under a name that nobody else has."""
    name = f".dockerfile.{secrets.token_hex(10)}"
    found = pieces(walked(path, "", _ignored(path, name).choice), root_owns=True)
    return name, _joined(one_file(name, dockerfile), found)


def _joined(first: bytes, others: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _ignored(path: str, dockerfile: str) -> Ignored:
    """What the directory's .dockerignore says; the daemon needs that file itself, and the Dockerfile."""
    try:
        with open(os.path.join(path, _IGNORE), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(LARGEST + 1)
    except FileNotFoundError:
        text = ""
    return Ignored(text, (_IGNORE, dockerfile))


def _of_input(dockerfile: str) -> Context:
    first = b""
    while len(first) < tarfile.BLOCKSIZE and (data := os.read(0, _PIECE)):
        first += data
    if first.startswith(_MAGIC) or _is_tar(first):
        return dockerfile or _DOCKERFILE, _joined(first, _rest())
    if dockerfile:
        raise Invalid("the input is no tar archive, so it holds no Dockerfile of another name")
    text = first + b"".join(_rest())
    return _DOCKERFILE, iter((one_file(_DOCKERFILE, text[:_LARGEST_DOCKERFILE]), bytes(2 * tarfile.BLOCKSIZE)))


def _is_tar(data: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(data[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _rest() -> Iterator[bytes]:
    while data := os.read(0, _PIECE):
        yield data


def _input_text() -> bytes:
    return b"".join(_rest())[:_LARGEST_DOCKERFILE]


def _counted(data: Iterable[bytes]) -> Iterator[bytes]:
    """The context, with a line about how much of it was sent; on a terminal the line grows."""
    sent, told, terminal = 0, 0, sys.stdout.isatty()
    for piece in data:
        yield piece
        sent += len(piece)
        if terminal and sent - told >= _PICTURE:
            told = sent
            print(f"Sending build context to the engine  {shown_size(sent)}\r", end="", flush=True)
    print(f"Sending build context to the engine  {shown_size(sent)}", flush=True)


def _noted(documents: Iterable[Object], built: list[str]) -> Iterator[Object]:
    """The documents; the ids of images among them are put into `built`."""
    for document in documents:
        if identity := (document.get("aux") or {}).get("ID"):
            built.append(str(identity))
        yield document


def _swap_bytes(text: str) -> int:
    return -1 if text == "-1" else parse_size(text)


# option → the parameter of the query, and how its value is made
_PARAMETERS: dict[str, tuple[str, Callable[[str], str | int]]] = {
    "cgroup-parent": ("cgroupparent", str),
    "cpu-period": ("cpuperiod", integer),
    "cpu-quota": ("cpuquota", integer),
    "cpu-shares": ("cpushares", integer),
    "cpuset-cpus": ("cpusetcpus", str),
    "cpuset-mems": ("cpusetmems", str),
    "memory": ("memory", parse_size),
    "memory-swap": ("memswap", _swap_bytes),
    "network": ("networkmode", str),
    "platform": ("platform", str),
    "shm-size": ("shmsize", parse_size),
    "target": ("target", str),
}

FUNCTIONS = {"build": (build_verb, OPTIONS)}
