"""Reads the variables of `-e` and the files of `--env-file` and `--label-file`, as docker does.

Pure but for opening the files that the user names.
"""

from collections.abc import Iterator, Mapping, Sequence

from engine.errors import Invalid
from engine.kernel import reasons

_BLANKS = " \t\n\v\f\r"
_BOM = "\ufeff"
_LARGEST = 16 * 1024 * 1024


def settings(files: Sequence[str], texts: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """`NAME=value` for each variable: those of the files, then those of the texts. Raises Invalid.

    A bare NAME has its value in our environment, and is left out where it has none there.
    """
    found = [line for file in files for line in read(file)]
    return [setting for text in (*found, *texts) if (setting := _setting(text, environ)) is not None]


def labels(files: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """The labels of the files, then those of the texts, by name; a bare name has an empty value. Raises Invalid."""
    found = [line for file in files for line in read(file)]
    return {name: value for name, _, value in (text.partition("=") for text in (*found, *texts))}


def read(path: str) -> list[str]:
    """The lines of one file that set something. Raises Invalid."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise Invalid(f"open {path}: {reasons.of(error)}") from error
    if len(data) > _LARGEST:
        raise Invalid(f"invalid env file ({path}): it is larger than {_LARGEST >> 20} MiB")
    try:
        return list(lines(data))
    except Invalid as error:
        raise Invalid(f"invalid env file ({path}): {error}") from error


def lines(data: bytes) -> Iterator[str]:
    """The lines of a file's bytes that set something: no comment, not empty. Raises Invalid."""
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise Invalid(f"env file contains invalid utf8 bytes at line {number}") from error
        text = (text.removeprefix(_BOM) if number == 1 else text).lstrip(_BLANKS)
        if not text or text.startswith("#"):
            continue
        name = text.partition("=")[0]
        if not name:
            raise Invalid(f"no variable name on line '{text}'")
        if any(blank in name for blank in _BLANKS):
            raise Invalid(f"variable '{name}' contains whitespaces")
        yield text


def _setting(text: str, environ: Mapping[str, str]) -> str | None:
    if "=" in text:
        return text
    return f"{text}={environ[text]}" if text in environ else None
