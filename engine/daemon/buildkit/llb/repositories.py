"""The source `git` of a graph: a repository's address with its attributes, as the build's own source of git takes it.

Pure. The remote's words are checked where an address is read; what this engine does not do is refused here.
"""

from collections.abc import Mapping

from engine.daemon.builder import sourcechecks
from engine.daemon.builder.git import gitaddress
from engine.daemon.builder.git.gitaddress import GitAddress
from engine.daemon.builder.git.gitsource import GitSource
from engine.errors import Invalid, NotBuilt
from engine.literals import BOOLEANS

_SCHEME = "git://"
_URL, _CHECKSUM, _KEEP = "git.fullurl", "git.checksum", "git.keepgitdir"
_ALONE, _TIMES, _BY_COMMIT = "git.skipsubmodules", "git.mtime", "git.fetchbycommit"
# What the client gives: an agent, the keys of hosts, and the names of secrets, with a host's behind them or not.
_AGENT, _HOSTS, _ADVICE = "git.mountsshsock", "git.knownsshhosts", "git.advice"
_TOKEN, _HEADER = "git.authtokensecret", "git.authheadersecret"
_KNOWN = (_URL, _CHECKSUM, _KEEP, _ALONE, _TIMES, _BY_COMMIT, _AGENT, _HOSTS, _ADVICE, _TOKEN, _HEADER)
_SUFFIX = ".git"


def read(identifier: str, attrs: Mapping[str, str], title: str = "") -> GitSource:
    """The operation of a source. Raises Invalid, NotBuilt."""
    for key in attrs:
        if key not in _KNOWN:
            raise NotBuilt(f"the attribute {key} of a git repository is not built in this engine")
    rest, _, fragment = identifier.removeprefix(_SCHEME).partition("#")
    address = address_of(f"https://{rest}", fragment)
    if attrs.get(_URL):
        named, address = address, address_of(attrs[_URL], fragment)
        if _place(named) != _place(address):  # what is judged by its name is to be what is fetched
            raise Invalid(f"{_URL} does not match source identifier")
    address.checksum = attrs.get(_CHECKSUM, "") or address.checksum
    address.submodules = not _flag(attrs, _ALONE)
    address.by_commit = _flag(attrs, _BY_COMMIT)
    if attrs.get(_TIMES, "checkout") not in ("checkout", "commit"):
        raise Invalid(f"invalid {_TIMES}: {attrs[_TIMES]}")
    address.commit_times = attrs.get(_TIMES) == "commit"
    address.token_secret = attrs.get(_TOKEN) or address.token_secret
    address.header_secret = attrs.get(_HEADER) or address.header_secret
    address.agent = attrs.get(_AGENT) or address.agent
    address.known_hosts = attrs.get(_HOSTS, "")
    return GitSource(address, _flag(attrs, _KEEP), title or identifier)


def _place(address: GitAddress) -> tuple[str, str]:
    """The host of a repository, and its path there."""
    rest, _, _ = sourcechecks.of_git(address).name.partition("#")
    host, _, path = rest.partition("/")
    return host.lower(), path.removesuffix(_SUFFIX)


def address_of(remote: str, fragment: str) -> GitAddress:
    """The address of any remote, also of one that a Dockerfile could not tell from a file's URL. Raises Invalid."""
    remote = remote.partition("#")[0]
    found = gitaddress.parse(f"{remote}#{fragment}")
    if found is None:
        found = gitaddress.parse(f"{remote}{_SUFFIX}#{fragment}")
        if found is None:
            raise Invalid(f"invalid git address {remote}")
        found.remote = found.remote.removesuffix(_SUFFIX)
    return found


def _flag(attrs: Mapping[str, str], key: str) -> bool:
    value = attrs.get(key, "false")
    if value not in BOOLEANS:
        raise Invalid(f"invalid {key}: {value}")
    return BOOLEANS[value]
