"""What a build asks about its sources before it takes them: by the names that graphs give them, and what it gets.

Pure but for what a caller's functions do. A source that is converted to one of its own kind is taken as any other is;
one of another kind becomes a tree.
"""

import posixpath
from collections.abc import Callable, Mapping

from engine.daemon.builder import urls
from engine.daemon.builder.copying import fetching
from engine.daemon.builder.git.gitaddress import GitAddress
from engine.daemon.builder.graph.node import Input
from engine.daemon.builder.sourcepolicies import Source
from engine.daemon.dockerfile import commands
from engine.daemon.images.reference import Reference
from engine.dataclass import dataclass, field, replace
from engine.errors import Invalid, NotBuilt

IMAGE, LAYOUT, LOCAL, GIT = "docker-image", "oci-layout", "local", "git"
WEB = ("http", "https")
"""Kinds of sources."""
CHECKSUM, FILENAME = "http.checksum", "http.filename"
_IMAGE_CHECKSUM = "image.checksum"


def of_image(name: str) -> Source:
    """The source of an image's name, or of an id, which policies can name by a wildcard alone."""
    try:
        return Source(f"{IMAGE}://{Reference.parse(name).with_default_tag().canonical}")
    except Invalid:
        return Source(f"{IMAGE}://{name}")


def of_git(address: GitAddress, keep_git_dir: bool = False, checksum: str = "") -> Source:
    """The source of a git repository. Source: buildkit, client/llb/source.go"""
    if "://" in address.remote:
        scheme, _, rest = address.remote.partition("://")
        host, _, path = rest.partition("/")
        host = host.rpartition("@")[2]
        whole = f"{scheme}://{address.userinfo}@{rest}" if address.userinfo else address.remote
    else:
        host, _, path = address.remote.rpartition("@")[2].partition(":")
        whole = address.remote
    identifier = f"{GIT}://{host}{posixpath.normpath(f'/{path}').replace('//', '/')}"
    if address.ref or address.subdir:
        identifier += f"#{address.ref}" + (f":{address.subdir}" if address.subdir else "")
    ssh = address.scheme == "ssh"
    attributes = {
        "git.fullurl": whole,
        "git.authtokensecret": "GIT_AUTH_TOKEN",
        "git.authheadersecret": "GIT_AUTH_HEADER",
        "git.mountsshsock": "default" if ssh else "",
        "git.checksum": checksum or address.checksum,
        "git.keepgitdir": "true" if keep_git_dir or address.keep_git_dir else "",
        "git.skipsubmodules": "" if address.submodules else "true",
        "git.mtime": "commit" if address.commit_times else "",
        "git.fetchbycommit": "true" if address.by_commit else "",
    }
    return Source(identifier, {key: value for key, value in attributes.items() if value})


def of_url(url: str, keep_git_dir: bool = False, filename: str = "", checksum: str = "") -> Source:
    """The source of the URL of a git repository, or of a file. filename: what that is called. Raises Invalid."""
    address = urls.repository(url)
    if address is not None:
        return of_git(address, keep_git_dir, checksum)
    attributes = {CHECKSUM: checksum, FILENAME: filename}
    return Source(url, {key: value for key, value in attributes.items() if value})


def image_name(source: Source) -> str:
    """The name of an image that is a source, with the checksum that it must have. Raises Invalid, NotBuilt."""
    if source.kind != IMAGE:
        raise Invalid(f"ref mutated by policy to non-image: {source.identifier}")
    for key in source.attributes:
        if key != _IMAGE_CHECKSUM:
            raise NotBuilt(f"the attribute {key} of the image {source.name} is not built in this engine here")
    checksum = source.attributes.get(_IMAGE_CHECKSUM, "")
    return f"{source.name}@{checksum}" if checksum and "@" not in source.name else source.name


@dataclass(frozen=True, slots=True)
class Instead:
    """What is downloaded in the place of the file of a URL. checksum: `sha256:...`, or empty"""

    url: str
    checksum: str


@dataclass(frozen=True, slots=True)
class Added:
    """A part of a COPY or an ADD: sources that one step copies. instead: URL among them → what is downloaded for it

    tree: that they are paths of, None for those of the command itself
    """

    command: commands.Copy | commands.Add
    instead: Mapping[str, Instead] = field(default_factory=dict)
    tree: Input | None = None


def _absent(_source: Source, _platform: str) -> Input:
    raise NotBuilt("converting this source by a policy is not built in this engine")


@dataclass(frozen=True, slots=True)
class SourceChecks:
    """The checks of one build. judge: gives the source that is to be used, on a platform as written, or empty; None
    where every source may be used; raises Forbidden for none. tree: gives the files of a source
    """

    judge: Callable[[Source, str], Source] | None = None
    tree: Callable[[Source, str], Input] = _absent

    @property
    def active(self) -> bool:
        """Whether any source is judged."""
        return self.judge is not None

    def judged(self, source: Source, platform: str = "") -> Source:
        """The source that is to be used. Raises what `judge` raises."""
        return self.judge(source, platform) if self.judge is not None else source

    def image(self, name: str, platform: str = "") -> str:
        """The name of the image that is to be used for this one. Raises Invalid where it is no image, NotBuilt."""
        source = of_image(name)
        found = self.judged(source, platform)
        return name if found == source else image_name(found)

    def added(self, command: commands.Add) -> list[Added]:
        """An ADD in parts, as the sources that are to be used ask for. Raises what `judge` and `tree` raise."""
        if self.judge is None:
            return [Added(command)]
        parts: list[Added] = []
        plain: list[str] = []
        instead: dict[str, Instead] = {}

        def end() -> None:
            if plain:
                parts.append(Added(replace(command, sources=tuple(plain), heredocs=()), dict(instead)))
                plain.clear()

        for url in command.sources:
            found = self._tree_of(url, command, instead) if fetching.is_remote(url) else None
            if found is None:
                plain.append(url)
                continue
            end()
            path = "/" if urls.repository(url) is not None else f"/{fetching.plain_name(url)}"
            only = replace(command, sources=(path,), heredocs=(), checksum="", keep_git_dir=None)
            parts.append(Added(replace(only, unpack=command.unpack is True), {}, found))
        end()
        if command.heredocs and (not parts or parts[-1].tree is not None):
            parts.append(Added(replace(command, sources=(), checksum="")))
        elif command.heredocs:
            parts[-1] = replace(parts[-1], command=replace(parts[-1].command, heredocs=command.heredocs))
        return parts

    def _tree_of(self, url: str, command: commands.Add, instead: dict[str, Instead]) -> Input | None:
        """The tree that is to be used for a URL; None for the URL itself, or what is put into `instead` for it."""
        name = fetching.plain_name(url)
        source = of_url(url, bool(command.keep_git_dir), name, command.checksum)
        found = self.judged(source)
        if found == source:
            return None
        more = {key: value for key, value in found.attributes.items() if key not in (CHECKSUM, FILENAME)}
        if source.kind in WEB and found.kind in WEB and not more and found.attributes.get(FILENAME) == name:
            instead[url] = Instead(found.identifier, found.attributes.get(CHECKSUM, ""))
            return None
        return self.tree(found, "")
