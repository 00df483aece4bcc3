"""Parses and checks a seccomp profile that a client has sent, in docker's JSON format, before it is compiled.

Pure: text in, a dict out that has only fields that `seccomp_rules` knows, of the types it expects. Every byte is
treated as hostile: what is too much, too deep or not of the format is Invalid, in docker's words where docker has some.
Loaded by the daemon alone, once a client has sent a profile.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.errors import Invalid

LARGEST_TEXT = 1 << 20
MOST_RULES = 4096
MOST_NAMES = 1 << 16
MOST_CONDITIONS = 4096
_UINT64 = (1 << 64) - 1
_UINT32 = (1 << 32) - 1
# From the OCI's format, not docker's: a filter that asks a listener process, which this engine does not have.
_ASKING = ("listenerPath", "listenerMetadata")
FLAGS = {
    "SECCOMP_FILTER_FLAG_TSYNC": 0,  # all threads: init has one
    "SECCOMP_FILTER_FLAG_LOG": 2,
    "SECCOMP_FILTER_FLAG_SPEC_ALLOW": 4,
}
"""The flags of a filter that a profile may ask for, and their bits (seccomp(2))."""


_Check = Callable[[object, str], object]
"""Takes a value and its place in the profile; returns the checked value, and raises Invalid."""


def flags(text: str) -> int:
    """The SECCOMP_FILTER_FLAG_* bits that a profile asks for. Raises Invalid."""
    profile = parse(text) or {}
    return sum({FLAGS[flag] for flag in profile.get("flags") or ()})


def parse(text: str) -> dict[str, Any] | None:
    """The profile of a text; None for one without content, for which docker installs no filter. Raises Invalid."""
    if len(text) > LARGEST_TEXT:
        raise Invalid(f"Decoding seccomp profile failed: more than {LARGEST_TEXT} characters")
    try:
        profile = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"Decoding seccomp profile failed: {error}") from error
    if profile is None:
        return None
    checked = _fields(profile, "profile", _PROFILE)
    if not checked.get("defaultAction") and not checked.get("syscalls"):
        return None
    if checked.get("architectures") and checked.get("archMap"):
        raise Invalid(
            "both 'architectures' and 'archMap' are specified in the seccomp profile,"
            " use either 'architectures' or 'archMap'"
        )
    _check_amounts(checked.get("syscalls") or ())
    for key in _ASKING:
        if profile.get(key):
            raise Invalid(f"seccomp: {key} needs a listener, which this engine does not have")
    for flag in checked.get("flags") or ():
        if flag not in FLAGS:
            raise Invalid(f"seccomp: unknown flag {flag!r}")
    return checked


def _check_amounts(rules: Sequence[Mapping[str, Any]]) -> None:
    if len(rules) > MOST_RULES:
        raise Invalid(f"seccomp: {len(rules)} rules, more than {MOST_RULES}")
    names = conditions = 0
    for rule in rules:
        if rule.get("name") and rule.get("names"):
            raise Invalid("both 'name' and 'names' are specified in the seccomp profile, use either 'name' or 'names'")
        named = len(rule.get("names") or ()) or 1
        names += named
        conditions += named * len(rule.get("args") or ())
    if names > MOST_NAMES or conditions > MOST_CONDITIONS:
        raise Invalid(f"seccomp: rules for {names} names with {conditions} conditions, more than the kernel could take")


def _number(least: int, most: int) -> Callable[[object, str], int]:
    def check(value: object, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _wrong(where, f"a number from {least} to {most}", value)
        return value

    return check


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a text", value)
    return value


def _version(value: object, where: str) -> str:
    text = _text(value, where)
    major, dot, minor = text.partition(".")
    if not (dot and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit() and len(text) < 16):
        raise Invalid(f'Decoding seccomp profile failed: invalid kernel version: "{text[:32]}"')
    return text


def _list(check: _Check) -> _Check:
    def check_list(value: object, where: str) -> list[object]:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return [check(each, where) for each in value]

    return check_list


def _struct(fields: Mapping[str, _Check]) -> _Check:
    return lambda value, where: _fields(value, where, fields)


def _fields(value: object, where: str, fields: Mapping[str, _Check]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    known = ((key, check) for key, check in fields.items() if value.get(key) is not None)
    return {key: check(value[key], f"{where}.{key}") for key, check in known}


def _wrong(where: str, expected: str, value: object) -> Invalid:
    return Invalid(f"Decoding seccomp profile failed: {where} must be {expected}, not {str(value)[:32]!r}")


_TEXTS = _list(_text)
_FILTER = _struct({"caps": _TEXTS, "arches": _TEXTS, "minKernel": _version})
_CONDITION = _struct(
    {"index": _number(0, 5), "value": _number(0, _UINT64), "valueTwo": _number(0, _UINT64), "op": _text}
)
_RULE = _struct(
    {
        "name": _text,
        "names": _TEXTS,
        "action": _text,
        "errnoRet": _number(0, _UINT32),
        "args": _list(_CONDITION),
        "includes": _FILTER,
        "excludes": _FILTER,
        "comment": _text,
    }
)
_PROFILE: dict[str, _Check] = {
    "defaultAction": _text,
    "defaultErrnoRet": _number(0, _UINT32),
    "architectures": _TEXTS,
    "archMap": _list(_struct({"architecture": _text, "subArchitectures": _TEXTS})),
    "syscalls": _list(_RULE),
    "flags": _TEXTS,
}
