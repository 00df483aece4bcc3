"""Reads what a generator of bills of materials, or a frontend, has written: a directory of statements of in-toto.

Works beneath a descriptor of the directory. Either is a stranger's program: how many files there are, how large
and how deeply nested they are is bounded, links lead nowhere else, and nothing but a regular file is read. Forms:
github.com/in-toto/attestation, spec/v1/statement.md; buildkit, exporter/attestation/unbundle.go.
"""

import os
import re
from collections.abc import Sequence

from engine.daemon import jsontext
from engine.daemon.buildkit.exporters.intoto import NAMELESS, SPDX, Attestation, Subject
from engine.daemon.buildkit.llb import showing
from engine.daemon.buildkit.sbom import rawmembers
from engine.errors import Invalid
from engine.literals import quoted

CORE = "sbom"
"""What the statement about the result itself is called, before the first dot of its file's name."""
_MOST_FILES = 100
_MOST_BYTES = 64 << 20  # of all files
MOST_SUBJECTS = 1000
_ALGORITHM, _HEX = re.compile(r"[a-z0-9]+([+._-][a-z0-9]+)*"), re.compile(r"[0-9a-f]{32,256}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read(root: int, kind: str = SPDX, core: str = CORE, whose: str = "an sbom generator") -> list[Attestation]:
    """The statements in the files of a directory, that about the result first. Raises Invalid.

    kind: which each has to have, empty for any; core: as `CORE`; whose: the files are, for the words of errors
    """
    found, left = list[Attestation](), _MOST_BYTES
    for name in _names(root, whose):
        data = showing.file(root, name)
        left -= len(data)
        if left < 0:
            raise Invalid(f"the files of {whose} have more than {_MOST_BYTES} bytes")
        found.append(_statement(name, data, kind, core))
    return sorted(found, key=lambda each: not each.core)


def _names(root: int, whose: str) -> list[str]:
    opened = os.open(".", _DIRECTORY, dir_fd=root)
    try:
        names: list[str] = []
        with os.scandir(opened) as entries:
            for entry in entries:
                if len(names) >= _MOST_FILES:
                    raise Invalid(f"{whose} has written more than {_MOST_FILES} files")
                if not entry.name.isprintable():
                    raise Invalid(f"{whose} has written a file of the name {quoted(entry.name)}")
                names.append(entry.name)
    finally:
        os.close(opened)
    return sorted(names)


def _statement(name: str, data: bytes, wanted: str, core: str) -> Attestation:
    members = rawmembers.split(data, f"in-toto statement {name}")
    kind = jsontext.parse(members.get("predicateType", "null"), name)
    if not isinstance(kind, str) or (wanted and kind != wanted):
        raise Invalid(f"bundle entry {quoted(str(kind))[:200]} does not match required predicate type {wanted}")
    subjects = _subjects(name, jsontext.parse(members.get("subject", "null"), name))
    predicate = members.get("predicate", "null").encode()
    return Attestation(kind, predicate, name, subjects=subjects, core=name.partition(".")[0] == core)


def _subjects(name: str, given: object) -> tuple[Subject, ...]:
    """What the statement is about by its own words; none for the result."""
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MOST_SUBJECTS:
        raise Invalid(f"invalid in-toto statement {name}: its subjects are no list, or too many")
    return tuple(_subject(name, each) for each in given)


def _subject(name: str, given: object) -> Subject:
    called, digests = (given.get("name", ""), given.get("digest")) if isinstance(given, dict) else (None, None)
    digests = {} if digests is None else digests
    if not isinstance(called, str) or not isinstance(digests, dict):
        raise Invalid(f"invalid in-toto statement {name}: a subject is of the wrong type")
    if not all(isinstance(value, str) for value in digests.values()):
        raise Invalid(f"invalid in-toto statement {name}: a digest of a subject is none")
    return subject(name, called, [f"{algorithm}:{value}" for algorithm, value in digests.items()])


def subject(name: str, called: str, digests: Sequence[str], own: bool = False) -> Subject:
    """A subject of the statement in the file `name`. Raises Invalid for what is no digest."""
    for each in digests:
        algorithm, _, value = each.partition(":")
        if not _ALGORITHM.fullmatch(algorithm) or not _HEX.fullmatch(value):
            raise Invalid(f"invalid in-toto statement {name}: a digest of a subject is none")
    return Subject(called or NAMELESS, tuple(digests), own)
