"""Parsing and writing image references such as `busybox:latest` in docker's way, and checking digests.

Pure. Grammar: github.com/distribution/reference. A name without a domain and a path belongs to docker.io/library.
"""

import re

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.regex import regex

_DEFAULT_DOMAIN = "docker.io"
_OLD_DOMAIN = "index.docker.io"
_OFFICIAL = "library/"
_LONGEST_NAME = 255
# The length of a name, a tag and a digest at their longest. A longer text is refused before any pattern is matched.
_LONGEST = _LONGEST_NAME + 128 + 256

_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = regex(rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = regex(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_TAG = regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = regex(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_IDENTIFIER = regex(r"[a-f0-9]{64}")


@dataclass(frozen=True, slots=True)
class Reference:
    """One parsed reference; `tag` and `digest` are empty where the text had none."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """The reference that `text` is, with docker.io and library/ filled in, but without a default tag.

        Raises Invalid in docker's words (transcript 214, 221).
        """
        if _IDENTIFIER.fullmatch(text):
            raise Invalid(f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings")
        if len(text) > _LONGEST:
            raise Invalid("invalid reference format")
        domain, rest = _split_domain(text)
        name = rest.partition("@")[0].partition(":")[0]
        if name.lower() != name:
            raise Invalid(f"invalid reference format: repository name ({name}) must be lowercase")
        rest, at, digest = rest.partition("@")
        path, colon, tag = rest.partition(":")
        fits = (
            _DOMAIN.fullmatch(domain)
            and _PATH.fullmatch(path)
            and (not colon or _TAG.fullmatch(tag))
            and (not at or _DIGEST.fullmatch(digest))
        )
        if not fits:
            raise Invalid("invalid reference format")
        if len(domain) + 1 + len(path) > _LONGEST_NAME:
            raise Invalid("repository name must not be more than 255 characters")
        if digest:
            check_digest(digest)
        return cls(domain, path, tag, digest)

    def with_tag(self, tag: str) -> "Reference":
        """The same name with this tag. Raises Invalid (`invalid tag format`)."""
        if not _TAG.fullmatch(tag):
            raise Invalid("invalid tag format")
        return Reference(self.domain, self.path, tag, self.digest)

    def with_digest(self, digest: str) -> "Reference":
        """The same name with this digest, and without a tag. Raises Invalid."""
        check_digest(digest)
        return Reference(self.domain, self.path, "", digest)

    def with_default_tag(self) -> "Reference":
        """The same reference, with the tag `latest` where it has neither tag nor digest."""
        return self if self.tag or self.digest else Reference(self.domain, self.path, "latest")

    @property
    def name(self) -> str:
        """Domain and path, such as `docker.io/library/busybox`."""
        return f"{self.domain}/{self.path}"

    @property
    def canonical(self) -> str:
        """The whole reference, such as `docker.io/library/busybox:latest`."""
        return self.name + self._suffix()

    @property
    def familiar_name(self) -> str:
        """The name in the short form that people write, such as `busybox`."""
        if self.domain != _DEFAULT_DOMAIN:
            return self.name
        rest = self.path.removeprefix(_OFFICIAL)
        # library/a/b is no official image, and must not be shortened to a/b.
        return rest if "/" not in rest else self.path

    @property
    def familiar(self) -> str:
        """The whole reference in the short form that people write, such as `busybox:latest`."""
        return self.familiar_name + self._suffix()

    def _suffix(self) -> str:
        return (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def check_digest(digest: str) -> None:
    """Raise Invalid unless `digest` is a known algorithm, a colon and as many hex digits as that algorithm has."""
    algorithm, _, value = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise Invalid("unsupported digest algorithm" if _DIGEST.fullmatch(digest) else "invalid checksum digest format")
    if len(value) != length:
        raise Invalid("invalid checksum digest length")
    if not re.fullmatch(r"[a-f0-9]+", value):
        raise Invalid("invalid checksum digest format")


def _split_domain(text: str) -> tuple[str, str]:
    """The registry's host and the rest of a reference; a host has a dot, a colon or a capital, or is localhost."""
    first, slash, rest = text.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    domain, rest = (first, rest) if is_host else (_DEFAULT_DOMAIN, text)
    if domain == _OLD_DOMAIN:
        domain = _DEFAULT_DOMAIN
    if domain == _DEFAULT_DOMAIN and "/" not in rest:
        rest = _OFFICIAL + rest
    return domain, rest
