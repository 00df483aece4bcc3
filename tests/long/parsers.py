"""Targets for atheris that read bytes of others: heads and bodies of HTTP, tar streams, Dockerfiles, JSON, messages.

Each takes any bytes. They are refused by an `EngineError`, or by the error that the parser's docstring names, or they
are read; anything else is a find. Run by `python -m tests.long parsers`, one process a target.
"""

import io
import tarfile
from collections.abc import Callable

# What a coverage-guided run is to look at; imported by it, and by nothing else before.
ROOMS = (
    *("engine.daemon.api", "engine.daemon.dockerfile", "engine.daemon.jsontext", "engine.daemon.tar"),
    *("engine.daemon.images.reference", "engine.protocols.dbus", "engine.resolver.packets", "engine.wire"),
)


def http() -> Callable[[bytes], None]:
    """The head of a request and its chunked body, cut where the first byte says; what is asked in its query."""
    from engine.daemon.api.query import Query
    from engine.errors import Invalid
    from engine.protocols import http as parser

    def ask(data: bytes) -> None:
        cut, data = (data[0] if data else 0), data[1:]
        try:
            end = parser.end_of_head(data)
            if end <= 0:
                return
            head = parser.parse_head(data[:end])
            query = Query(head.query)
            for read in (query.flag, query.number, query.timestamp):
                attempt(Invalid, lambda read=read: read("a"))
            attempt(Invalid, query.filters)
            decoder, body = parser.ChunkDecoder(), data[end:]
            for piece in (body[:cut], body[cut:]):
                decoder.feed(piece)
        except parser.BadRequest:
            return

    return ask


def tar() -> Callable[[bytes], None]:
    """The members of an archive and their contents; as many as there are bytes for."""
    from engine.daemon.tar.reader import TarReader
    from engine.errors import EngineError

    def ask(data: bytes) -> None:
        def read() -> None:
            reader = TarReader(io.BytesIO(data))
            for _ in reader:
                for _ in reader.chunks():
                    pass

        attempt(EngineError, read)

    return ask


def dockerfile() -> Callable[[bytes], None]:
    """A Dockerfile's statements and their words."""
    from engine.daemon.builder import stages
    from engine.daemon.dockerfile import parser
    from engine.daemon.dockerfile.ignore import Ignore
    from engine.errors import EngineError

    def ask(data: bytes) -> None:
        attempt(EngineError, lambda: stages.plan(parser.parse(data), str, ""))
        attempt(EngineError, lambda: parser.statements(data))
        text = data.decode("utf-8", "replace")
        attempt(EngineError, lambda: Ignore(text).matches("a/b"))

    return ask


def json() -> Callable[[bytes], None]:
    """A body as the API takes it, by every schema, and documents of images."""
    from engine.daemon import jsontext
    from engine.daemon.api import body, schemas
    from engine.daemon.images.reference import Reference
    from engine.errors import EngineError

    structs = [each for each in vars(schemas).values() if isinstance(each, body.Struct)]

    def ask(data: bytes) -> None:
        which, data = (data[0] if data else 0), data[1:]
        attempt(EngineError, lambda: body.decode(data, structs[which % len(structs)]))
        attempt(EngineError, lambda: jsontext.parse(data, "document"))
        attempt(EngineError, lambda: Reference.parse(data[:300].decode("utf-8", "replace")))

    return ask


def messages() -> Callable[[bytes], None]:
    """What the engine's processes tell each other, a birth's reports, questions for names, frames, D-Bus."""
    from engine.errors import EngineError
    from engine.protocols import dbus
    from engine.protocols.websocket import Machine
    from engine.resolver import packets
    from engine.wire import codec, report

    def ask(data: bytes) -> None:
        attempt(EngineError, lambda: codec.decode(data))
        attempt((ValueError, KeyError, TypeError), lambda: report.decode(data))
        attempt(packets.Malformed, lambda: packets.Query(data))
        attempt(EngineError, lambda: Machine().receive(data))
        attempt(EngineError, lambda: dbus.decode(data))

    return ask


def _tar() -> bytes:
    """An archive with long names, whose records are PAX's."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("n" * 120)
        member.size = 3
        archive.addfile(member, io.BytesIO(b"abc"))
    return made.getvalue()[: 5 * 512]


TARGETS = {each.__name__: each for each in (http, tar, dockerfile, json, messages)}

_QUESTION = b"\x00\x01\x01\x00\x00\x01" + bytes(6) + b"\x01a\x00\x00\x01\x00\x01"
SEEDS = {
    "http": (
        b'\x05GET /v1.41/containers/json?all=1&filters={"a":["b"]} HTTP/1.1\r\nHost: x\r\n\r\n',
        b"\x02POST /x?a=1.5 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n",
    ),
    "dockerfile": (b'# escape=`\nARG a=b\nFROM x AS y\nRUN --mount=type=cache,target=/a <<E\nx\nE\nCMD ["a"]\n',),
    "json": (b'\x00{"Image": "a:b", "Cmd": ["c"], "HostConfig": {"Memory": 1e3}}',),
    "messages": (b'{"@":"Started","pid":1,"pid_start":2,"started_ns":3}', _QUESTION),
    "tar": (_tar(),),
}
"""What a target begins with: inputs that get past the first checks."""


def attempt(refused: type[Exception] | tuple[type[Exception], ...], read: Callable[[], object]) -> None:
    """Read; to be refused is fine."""
    try:
        read()
    except refused:
        return
