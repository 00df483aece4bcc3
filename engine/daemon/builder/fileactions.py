"""An operation of several actions on files: directories, files and links that are made, copies, and removals.

Each action stands on a tree: an input of the operation, nothing, or what an earlier action has made. Actions that
follow each other on one tree make one layer.
"""

import contextlib
from collections.abc import Callable, Sequence

from engine.daemon.builder import fileedits, rewriting, treecopy
from engine.daemon.builder.copying.digests import Digester
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.fileedits import Attributes
from engine.daemon.builder.graph.node import Value, digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.builder.treecopy import Copied
from engine.daemon.images.layers import merged
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.kernel import reasons
from engine.literals import natural
from engine.sandbox import users

NOTHING = -1
"""In the place of an input or an output: none."""
_PASSWD, _GROUP = "/etc/passwd", "/etc/group"
_MOST_ID, _MOST_NUMBER = (1 << 32) - 2, (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """parents: also the directories above it"""

    path: str
    mode: int
    parents: bool


@dataclass(frozen=True, slots=True)
class MakeFile:
    """A file with these contents."""

    path: str
    mode: int
    data: bytes


@dataclass(frozen=True, slots=True)
class MakeLink:
    """A symbolic link. target: what it says"""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Remove:
    """missing: nothing need be there; wildcard: the path is a pattern"""

    path: str
    missing: bool
    wildcard: bool


@dataclass(frozen=True, slots=True)
class Named:
    """A user or group by its name, as the tree says that the action or input of this number makes."""

    name: str
    tree: int


@dataclass(frozen=True, slots=True)
class Action:
    """One action. does: what; tree: that it stands on; source: that it copies from; output: which one it makes

    The numbers of trees are those of the inputs, and after them those of the actions. user, group: of what is made, by
    number or name, None: as it comes; time_ns: of what is made, None: as it comes
    """

    does: MakeDirectory | MakeFile | MakeLink | Remove | Copied
    tree: int = NOTHING
    source: int = NOTHING
    output: int = NOTHING
    user: int | Named | None = None
    group: int | Named | None = None
    time_ns: int | None = None

    def named(self) -> list[int]:
        """The numbers of the trees in which names of users and groups are looked up."""
        return [each.tree for each in (self.user, self.group) if isinstance(each, Named)]

    def needs(self) -> list[int]:
        """The numbers of the trees that it reads, beside the one that it stands on."""
        return [each for each in (self.source, *self.named()) if each != NOTHING]

    def decides(self) -> list[Value]:
        """All that decides what it makes, but for the trees."""
        does = [repr(each) for each in (self.does, self.user, self.group)]
        return [*does, self.tree, self.source, self.output, self.time_ns]


class FileActions:
    """The operation; its outputs are in the order of their numbers. inputs: how many it has"""

    kind = "regular"

    def __init__(self, actions: Sequence[Action], inputs: int, title: str) -> None:
        self.title = title
        self._actions, self._inputs = tuple(actions), inputs

    def key(self) -> str:
        """The actions."""
        return digest("files", self._inputs, [each.decides() for each in self._actions])

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The actions, the files that are copied from inputs, and all of the inputs that they are done to."""
        found: list[Value] = []
        for each in self._actions:
            if isinstance(each.does, Copied) and 0 <= each.source < self._inputs:
                layers, digester = (
                    inputs[each.source].layers,
                    Digester(Request((), "/", keep_owners=True, check=work.check)),
                )
                with merged.held(work.engine.images.layer_root, layers) as root:
                    found.append(contents(root, each.does, digester))
        used = sorted({number for each in self._actions for number in (each.tree, *each.named())})
        trees = [inputs[number].chain for number in used if 0 <= number < self._inputs]
        return digest("files", self._inputs, [each.decides() for each in self._actions], found, trees)

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Do the actions. Raises NotFound, Invalid, SystemFailure."""
        trees: dict[int, Snapshot] = {NOTHING: Snapshot(), **dict(enumerate(inputs))}
        outputs: dict[int, Snapshot] = {}
        for chain in self._chains():
            first, last = self._actions[chain[0]], chain[-1]
            made = self._done(work, trees, first.tree, [self._actions[place] for place in chain])
            trees[self._inputs + last] = made
            if self._actions[last].output != NOTHING:
                outputs[self._actions[last].output] = made
        return tuple(outputs[number] for number in range(len(outputs)))

    def _chains(self) -> list[list[int]]:
        """The places of actions that follow each other, of which nobody else needs what all but the last one make."""
        uses: dict[int, int] = {}
        for each in self._actions:
            for number in (each.tree, *each.needs()):
                uses[number] = uses.get(number, 0) + 1
        chains: list[list[int]] = []
        open_chain: dict[int, list[int]] = {}  # by the number of the tree that its last action makes
        for place, each in enumerate(self._actions):
            before = open_chain.pop(each.tree, None)
            if before is not None and before is chains[-1]:
                before.append(place)
            else:
                before = [place]
                chains.append(before)
            number = self._inputs + place
            if uses.get(number) == 1 and each.output == NOTHING:
                open_chain[number] = before
        return chains

    def _done(self, work: Work, trees: dict[int, Snapshot], below: int, actions: list[Action]) -> Snapshot:
        layer_root = work.engine.images.layer_root
        with contextlib.ExitStack() as stack:
            roots: dict[int, int] = {}

            def root_of(number: int) -> int:
                if number not in roots:
                    roots[number] = stack.enter_context(merged.held(layer_root, trees[number].layers))
                return roots[number]

            return done(work, trees[below], actions, root_of)


def done(work: Work, tree: Snapshot, actions: Sequence[Action], root_of: Callable[[int], int]) -> Snapshot:
    """A tree with these actions done to it, in one layer. root_of: the descriptor of a tree by its number"""
    steps = [_step(each, root_of, work.check) for each in actions]

    def act(root: int) -> None:
        for step in steps:
            work.check()
            step(root)

    return rewriting.rewritten(work, tree, act)


def _step(action: Action, root_of: Callable[[int], int], check: Callable[[], None]) -> Callable[[int], None]:
    """What the action does to a root. The owner's names are looked up before."""
    given = Attributes(owner_of(action.user, action.group, root_of), action.time_ns)
    does = action.does
    match does:
        case MakeDirectory():
            return _worded(
                "mkdir",
                does.path,
                lambda root: fileedits.make_directory(root, does.path, does.mode, does.parents, given),
            )
        case MakeFile():
            return _worded(
                "open", does.path, lambda root: fileedits.make_file(root, does.path, does.mode, does.data, given)
            )
        case MakeLink():
            return _worded("symlink", does.path, lambda root: fileedits.make_link(root, does.target, does.path, given))
        case Remove():
            return _worded(
                "lstat", does.path, lambda root: fileedits.remove(root, does.path, does.missing, does.wildcard)
            )
        case Copied():
            source = root_of(action.source)
            return _worded("copy", does.source, lambda root: treecopy.copy(source, root, does, given, check))


def _worded(what: str, path: str, act: Callable[[int], None]) -> Callable[[int], None]:
    return lambda root: fileedits.explained(what, path, lambda: act(root))


def owner_of(
    user: int | Named | None, group: int | Named | None, root_of: Callable[[int], int]
) -> tuple[int, int] | None:
    """uid and gid of what is made; None where neither is named.

    As with BuildKit, a user brings the group of the same number, or of his entry; who is not known is root, and a group
    that is not known changes nothing.
    """
    if user is None and group is None:
        return None
    both = (user or 0, user or 0) if not isinstance(user, Named) else _entry(user, root_of, _PASSWD, 2) or (0, 0)
    if isinstance(group, Named):
        return both[0], (_entry(group, root_of, _GROUP, 1) or both)[-1]
    return both[0], both[1] if group is None else group


def _entry(who: Named, root_of: Callable[[int], int], path: str, count: int) -> tuple[int, int] | None:
    """The numbers of an entry, as many as there are; None for nobody known. Raises Invalid."""
    if who.tree == NOTHING:
        raise Invalid(f"invalid {'user' if path == _PASSWD else 'group'} index {NOTHING}")
    try:
        text = users.read(root_of(who.tree), path)
    except OSError as error:
        raise Invalid(f"open {path}: {reasons.of(error)}") from error
    for line in text.split("\n"):
        fields = line.split(":")
        if fields[0] == who.name and len(fields) >= 2 + count:
            numbers = [natural(field, _MOST_ID) or 0 for field in fields[2 : 2 + count]]
            return numbers[0], numbers[-1]
    return None


def contents(root: int, asked: Copied, digester: Digester) -> list[Value]:
    """Digests of the files that are copied, without their times. Raises NotFound, Invalid."""
    made: list[Value] = []
    fileedits.explained("copy", asked.source, lambda: made.extend(treecopy.digested(root, asked, digester)))
    return made


def owners(chown: str, tree: int = NOTHING) -> tuple[int | Named | None, int | Named | None]:
    """User and group of a Dockerfile's --chown. tree: that knows names. Source: buildkit, client/llb/fileop.go"""
    user, _, group = chown.partition(":")
    return _who(user, tree) if chown else None, _who(group, tree) if group else None


def _who(text: str, tree: int) -> int | Named:
    if text == "root":
        return 0
    number = natural(text.removeprefix("-"), _MOST_NUMBER)
    return Named(text, tree) if number is None else 0 if text.startswith("-") else number
