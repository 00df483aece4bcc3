"""Packs the engine's files into the bytes of `engine.pyz`: the same files give the same bytes.

Pure. `engine.onefile` reads what is written here, and says what the file looks like. Sources are packed first, since
every Python needs them. Code of the modules that are used first fills what is left of the room, because a module with
code is loaded ten times as fast. Where it does not suffice for a start, the sources of the others are a block by
themselves.
"""

import functools
import hashlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from importlib.util import MAGIC_NUMBER

from engine.bundle import bytecode, firstuse
from engine.bundle.materials import Files
from engine.dataclass import dataclass, field
from engine.errors import SystemFailure
from engine.onefile import FILTERS, FORM

MOST = 1_000_000
"""Bytes that the file may have."""
FIRST = "engine/onefile.py"
_DATA = (1 << 22,)
_SOURCES = (310_000, 1 << 22)
_CODE = (1 << 16, 1 << 18, 1 << 20)
"""Bytes in the first blocks, and in each further one.

A larger block packs better, and a smaller one is unpacked sooner for a single module. The first block of code is what
every process needs before it starts Python anew, sealed. The second one is that of a client, and the third one is
unpacked by a daemon that starts.
"""
_DENSEST = 7
"""More bytes of code than this many times the room are not tried: packing takes most of the time."""
_CLOSE = 4  # modules
SURE = 160
"""As many modules have code in every file: the first block of sources begins with what follows them."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(slots=True)
class Packed:
    """What was packed: the file's bytes, how many modules it has, and how many of them with code."""

    data: bytes
    modules: int
    with_code: int


@dataclass(slots=True)
class _Block:
    """Packed files, and of each its name, kind, place in the block and size."""

    data: bytes
    files: list[tuple[str, str, int, int]] = field(default_factory=list)


def pack(files: Files, most: int = MOST, interpreter: str = "/usr/bin/env python3") -> Packed:
    """The file, which the kernel has this interpreter run. Raises SystemFailure where it has more than `most` bytes."""
    line = f"#!{interpreter}\n".encode()
    order = firstuse.ordered(files)
    data = [path for path in sorted(files) if not path.endswith(".py")]
    sources = [*order[SURE:], *order[:SURE]]
    blocks = [*_blocks("d", data, files.__getitem__, _DATA), *_blocks("s", sources, files.__getitem__, _SOURCES)]
    code: dict[str, bytes] = {}
    size, room = 0, most - len(_whole(line, files, blocks))
    for path in order:
        if size > room * _DENSEST:
            break
        code[path] = bytecode.made(files[path])
        size += len(code[path])
    if room < 0:
        raise SystemFailure(f"the engine in one file has {most - room} bytes, which is more than {most}")
    # What fits is known when it is packed: halving comes close enough.
    chosen, best = list(code), (0, _whole(line, files, blocks))
    fits, fits_not = 0, len(chosen) + 1
    count = len(chosen)
    while fits_not - fits > _CLOSE:
        packed = _blocks("c", chosen[:count], code.__getitem__, _CODE) if count else ()
        whole = _whole(line, files, [*blocks, *packed])
        if len(whole) <= most:
            fits, best = count, (count, whole)
        else:
            fits_not = count
        count = (fits + fits_not) // 2
    return Packed(best[1], len(order), best[0])


def _blocks(kind: str, names: list[str], content: Callable[[str], bytes], sizes: tuple[int, ...]) -> Iterator[_Block]:
    """The files packed in this order. Blocks are made when they are asked for: packing takes most of the time."""
    part, listed = b"", list[tuple[str, str, int, int]]()
    following = iter(sizes)
    most = next(following)
    for name in names:
        made = content(name)
        listed.append((name, kind, len(part), len(made)))
        part += made
        if len(part) >= most or name == names[-1]:
            yield _Block(_compressed(part), listed)
            part, listed, most = b"", [], next(following, most)


def _whole(line: bytes, files: Files, blocks: list[_Block]) -> bytes:
    check = hashlib.sha256(MAGIC_NUMBER)
    for name in sorted(files):
        check.update(f"{name} {len(files[name])}\n".encode() + files[name])
    entries = [("__main__.py", files[FIRST], True)]
    entries += [(f"blocks/{number:03}", block.data, False) for number, block in enumerate(blocks)]
    lines = [f"python {MAGIC_NUMBER.hex()}", f"digest {check.hexdigest()}"]
    offsets = _offsets(_zipped(line, entries))
    for number, block in enumerate(blocks):
        lines.append(f"block {number} {offsets[number + 1]} {len(block.data)} {zlib.crc32(block.data)}")
        lines += [f"{name} {kind} {number} {start} {size}" for name, kind, start, size in block.files]
    index = _compressed("".join(f"{line}\n" for line in lines).encode())
    entries.append(("index", index, False))
    offset = _offsets(_zipped(line, entries))[-1]
    return _zipped(line, entries, f"engine {FORM} {offset} {len(index)}".encode())


def _zipped(line: bytes, entries: list[tuple[str, bytes, bool]], comment: bytes = b"") -> bytes:
    """An archive of these (name, contents, whether to compress them), which can be executed."""
    made = io.BytesIO()
    made.write(line)
    with zipfile.ZipFile(made, "w") as archive:
        archive.comment = comment
        for name, contents, compress in entries:
            about = zipfile.ZipInfo(name, _EPOCH)
            about.create_system, about.external_attr = 3, 0o644 << 16  # of Unix
            about.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
            archive.writestr(about, contents, compresslevel=9)
    return made.getvalue()


def _offsets(archive: bytes) -> list[int]:
    """Where the contents of each entry begin (APPNOTE.TXT 4.3.7: 30 bytes, the name, and no more)."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return [each.header_offset + 30 + len(each.filename) for each in opened.infolist()]


@functools.cache
def _compressed(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_RAW, filters=FILTERS)
