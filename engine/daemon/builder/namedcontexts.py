"""Named contexts (`--build-context name=...`): which names of a Dockerfile stand for something else than they say.

Pure. A name stands for an image, a stage, or what a `--from` names; it may be replaced for one platform alone. The
kinds are a table; who builds finds out what each of them is. Source: buildkit, frontend/dockerui/namedcontext.go.
"""

from collections.abc import Iterable

from engine.daemon.builder import urls
from engine.daemon.dockerfile.statements import Dockerfile, Instruction
from engine.daemon.images import platform as platforms
from engine.daemon.images.reference import Reference
from engine.dataclass import dataclass, replace
from engine.errors import Invalid

IMAGE, LAYOUT, LOCAL, INPUT, GIT, WEB = "docker-image", "oci-layout", "local", "input", "git", "web"
# The beginning of a value → the kind. What remains of an `input:` and a `local:` is a name.
_KINDS = (
    ("docker-image://", IMAGE),
    ("docker-image:", IMAGE),
    ("oci-layout://", LAYOUT),
    ("oci-layout:", LAYOUT),
    ("local:", LOCAL),
    ("input:", INPUT),
)
_WEB = ("http://", "https://")
_BETWEEN = "::"  # a name and its platform
_RESERVED = ("scratch", "context")


@dataclass(frozen=True, slots=True)
class NamedContext:
    """One name. platform: for which it stands for this, empty for every one

    kind: as the constants above; place: a reference of an image, the name of a directory or of an input, or a URL
    """

    name: str
    platform: str
    kind: str
    place: str

    @property
    def shown(self) -> str:
        """The name as the client wrote it."""
        return f"{self.name}{_BETWEEN}{self.platform}" if self.platform else self.name


def read(name: str, value: str) -> NamedContext:
    """The named context of an option `context:NAME` or `context:NAME::PLATFORM`. Raises Invalid."""
    own, _, platform = name.partition(_BETWEEN)
    if platform:
        platform = str(platforms.parse(platform))
    for prefix, kind in _KINDS:
        if value.startswith(prefix):
            return NamedContext(own, platform, kind, value.removeprefix(prefix))
    if urls.is_git(value):
        return NamedContext(own, platform, GIT, value)
    if value.startswith(_WEB):
        return NamedContext(own, platform, WEB, value)
    if ":" not in value:
        raise Invalid(f"invalid context specifier {value} for {name}")
    raise Invalid(f"unsupported context source {value.partition(':')[0]} for {name}")


def find(known: Iterable[NamedContext], name: str, platform: str) -> NamedContext | None:
    """What a name stands for, on a platform such as linux/arm64; None where it stands for itself."""
    if name.lower() in _RESERVED:
        return None
    wanted = _familiar(name)
    same = [each for each in known if each.name in (name, wanted) or _familiar(each.name) == wanted]
    ranked = sorted(same, key=lambda each: each.platform != platform)
    return next((each for each in ranked if each.platform in (platform, "")), None)


def _familiar(name: str) -> str:
    """A name of an image in its shortest form, without the tag `latest`; any other name as it is."""
    try:
        return Reference.parse(name).familiar.removesuffix(":latest")
    except Invalid:
        return name


def with_stages_replaced(dockerfile: Dockerfile, known: Iterable[NamedContext], platform: str) -> Dockerfile:
    """The Dockerfile with each stage that a context is named like replaced by that context, without steps.

    platform: that the client wants
    """
    names = tuple(known)
    if not names:
        return dockerfile
    kept: list[Instruction] = []
    replaced = False
    for one in dockerfile.instructions:
        if one.keyword == "FROM":
            own = one.arguments[2].lower() if len(one.arguments) == 3 else ""
            replaced = bool(own) and find(names, own, platform) is not None
            kept.append(replace(one, arguments=(own, *one.arguments[1:])) if replaced else one)
        elif not replaced:
            kept.append(one)
    return replace(dockerfile, instructions=tuple(kept))
