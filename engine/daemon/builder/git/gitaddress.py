"""The address of a git repository as Dockerfiles and clients write it: `https://host/repo.git?query#ref:subdir`.

Pure. The forms are BuildKit's (frontend/dockerfile/dfgitutil, util/gitutil): a URL of git, ssh, or of http(s) that ends
in `.git`, `user@host:path`, and `github.com/...`. What is passed to git begins with no dash and has no space.
"""

import posixpath
import re
import urllib.parse
from collections.abc import Callable

from engine.daemon.dockerfile.gotext import quoted
from engine.dataclass import dataclass, field
from engine.errors import Invalid
from engine.literals import boolean
from engine.redact import MASK

LONGEST = 4096
_SCHEMES = ("http", "https", "ssh", "git")
_URL = re.compile(r"(?a:([a-zA-Z0-9]+)://)")
_SCP = re.compile(
    r"(?a:([a-zA-Z0-9_][a-zA-Z0-9_-]*)@([a-zA-Z0-9][a-zA-Z0-9.-]*):([^?#]*)(?:\?([^#]*))?(?:#(.*))?)", re.DOTALL
)
_HUB = "github.com/"
# What git allows in the name of a ref (git-check-ref-format(1)), without what could be an option or a range.
_REF = re.compile(r"(?!.*(?:\.\.|@\{|//|/\Z|\.\Z))[^\x00-\x20\x7f~^:?*\[\\-][^\x00-\x20\x7f~^:?*\[\\]*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_UNSAFE = re.compile(r"[\x00-\x20\x7f]")
_BRANCHES, _TAGS = "refs/heads/", "refs/tags/"


@dataclass(slots=True)
class GitAddress:
    """A repository and what of it is wanted.

    remote: what git is given, which any user may read among its arguments: without credentials, which `userinfo` has
    scheme: http, https, ssh or git; host: with its port
    ref: a branch, a tag, a commit or empty for the default branch; subdir: below the root, empty for the root
    checksum: what the commit begins with, or empty; by_commit: the checksum is the commit, and no ref is asked for
    keep_git_dir: None where the address does not say; commit_times: files get the time of the commit
    header_secret, token_secret, agent: the client's, by their names; known_hosts: of ssh, empty where any host will do
    """

    remote: str
    scheme: str
    host: str
    ref: str = ""
    subdir: str = ""
    checksum: str = ""
    keep_git_dir: bool | None = None
    submodules: bool = True
    commit_times: bool = False
    by_commit: bool = False
    header_secret: str = field(default="GIT_AUTH_HEADER", repr=False)
    token_secret: str = field(default="GIT_AUTH_TOKEN", repr=False)
    agent: str = "default"
    known_hosts: str = ""
    userinfo: str = field(default="", repr=False)
    _branch: str = field(default="", repr=False)
    _tag: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        """The remote, with what the address has as credentials hidden: a token can be a name as well as a password."""
        hidden = f"{MASK}:{MASK}" if ":" in self.userinfo else MASK
        return self.remote.replace("://", f"://{hidden}@", 1) if self.userinfo else self.remote


def parse(text: str) -> GitAddress | None:
    """The address, None for a text that is none of git's. Raises Invalid for one that is, and wrong."""
    if len(text) > LONGEST or text.startswith(("./", "../")):
        return None
    found = _split(text)
    if found is None:
        return None
    address, query, fragment = found
    if _UNSAFE.search(address.remote + address.userinfo) or address.host.startswith("-") or not address.host:
        raise Invalid(f"invalid git address {quoted(address.shown)}")
    address.ref, _, subdir = fragment.partition(":")
    address.subdir = _within(subdir)
    _query(address, query)
    if address.ref and not _REF.fullmatch(address.ref):
        raise Invalid(f"invalid git ref {quoted(address.ref)}")
    if address.checksum and not _HEX.fullmatch(address.checksum):
        raise Invalid(f"invalid checksum {address.checksum} for Git URL, expected hex commit hash")
    if address.by_commit and not is_commit(address.checksum):
        raise Invalid("fetch-by-commit requires a full commit SHA checksum")
    return address


def is_commit(text: str) -> bool:
    """Whether the text is the whole name of a commit."""
    return _COMMIT.fullmatch(text) is not None


def _split(text: str) -> tuple[GitAddress, str, str] | None:
    """The remote, the query and the fragment of a text that has the form of an address."""
    if text.startswith(_HUB):
        text = f"https://{text}"
        hub = True
    else:
        hub = False
    scheme = _URL.match(text)
    if scheme is None:
        match = _SCP.fullmatch(text)
        if match is None:
            return None
        user, host, path, query, fragment = (part or "" for part in match.groups())
        return GitAddress(f"{user}@{host}:{path}", "ssh", host), query, fragment
    kind = scheme[1].lower()
    if kind not in _SCHEMES:
        return None
    whole, _, fragment = text.partition("#")
    remote, _, query = whole.partition("?")
    rest = remote[scheme.end() :]
    netloc, slash, path = rest.partition("/")
    if kind in ("http", "https") and not hub and not path.endswith(".git"):
        return None
    userinfo, _, host = netloc.rpartition("@")
    if kind == "ssh":  # which asks for no password, so one is of no use; the user's name is no secret
        netloc, userinfo = "@".join(filter(None, (userinfo.partition(":")[0], host))), ""
    else:
        netloc = host
    address = GitAddress(f"{kind}://{netloc}{slash}{path}", kind, host, userinfo=userinfo)
    return address, query, urllib.parse.unquote(fragment)


def _within(subdir: str) -> str:
    """The path of a directory below the root; `..` leads no further up than that."""
    if "\0" in subdir:
        raise Invalid("invalid directory in a git address")
    return posixpath.normpath(posixpath.join("/", subdir)).strip("/")


def _query(address: GitAddress, query: str) -> None:
    try:
        given = urllib.parse.parse_qs(query, keep_blank_values=True, max_num_fields=len(_KEYS) + 1)
    except ValueError as error:
        raise Invalid(f"invalid query in a git address: {error}") from error
    for name, values in given.items():
        if len(values) != 1:
            raise Invalid(f"query {quoted(name)} has multiple values")
        if not values[0] and name not in _FLAGS:
            raise Invalid(f"query {quoted(name)} has no value")
        if name not in _KEYS:
            raise Invalid(f"unexpected query {quoted(name)}")
        _KEYS[name](address, values[0])
    if address._branch and address._tag:
        raise Invalid("branch conflicts with tag")
    for prefix, name in ((_TAGS, address._tag), (_BRANCHES, address._branch)):
        if name:
            _agree(address, "ref", name if name.startswith(prefix) else prefix + name)


def _agree(address: GitAddress, field_name: str, value: str) -> None:
    """Set a field that may have the value already. Raises Invalid where it has another one."""
    before = getattr(address, field_name)
    if before not in ("", value):
        raise Invalid(f"{field_name} conflicts: {quoted(before)} vs {quoted(value)}")
    setattr(address, field_name, value)


def _flag(name: str, shown: str) -> Callable[[GitAddress, str], None]:
    def keep(address: GitAddress, value: str) -> None:
        try:
            setattr(address, name, boolean(value) if value else True)
        except Invalid as error:
            raise Invalid(f"invalid {shown} value: {quoted(value)}") from error

    return keep


def _times(address: GitAddress, value: str) -> None:
    if value not in ("checkout", "commit"):
        raise Invalid(f'invalid mtime value: {quoted(value)} (must be "checkout" or "commit")')
    address.commit_times = value == "commit"


def _set(name: str) -> Callable[[GitAddress, str], None]:
    return lambda address, value: setattr(address, name, value)


_FLAGS = {
    "keep-git-dir": _flag("keep_git_dir", "keep-git-dir"),
    "submodules": _flag("submodules", "submodules"),
    "fetch-by-commit": _flag("by_commit", "fetch-by-commit"),
}
_KEYS: dict[str, Callable[[GitAddress, str], None]] = {
    **_FLAGS,
    "ref": lambda address, value: _agree(address, "ref", value),
    "tag": _set("_tag"),
    "branch": _set("_branch"),
    "subdir": lambda address, value: _agree(address, "subdir", _within(value)),
    "checksum": _set("checksum"),
    "commit": _set("checksum"),
    "mtime": _times,
}
