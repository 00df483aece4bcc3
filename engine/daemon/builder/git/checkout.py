"""Fetches one commit of a git repository into a directory of the build: asks which it is, fetches it, and lays it out.

Runs on the thread that builds. The directory lies beneath the build's scratch directory and is removed with it. What is
in it is not trusted: it is read beneath a descriptor, and links lead nowhere out of it.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator

from engine.daemon.builder.git import gitsecrets
from engine.daemon.builder.git.gitaddress import GitAddress, is_commit
from engine.daemon.builder.git.gitprogram import Git, first_that_works
from engine.daemon.builder.graph.work import Giver
from engine.daemon.tar.trees import remove_path
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel.beneath import open_beneath
from engine.literals import natural

_FILES, _HELD = "files", ".git"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HEAD = "HEAD"
_LATEST = 1 << 40  # seconds since the epoch
_BRANCHES, _TAGS, _REFS = "refs/heads/", "refs/tags/", "refs/"
_PEELED, _SYMBOLIC = "^{}", "ref: "


@dataclass(frozen=True, slots=True)
class Resolved:
    """commit: its whole name, or that of the annotated tag that stands for it; ref: its full name, empty for none

    tag: the name of the annotated tag that the ref is, where the commit's own name is known; empty for none
    branch: that HEAD stands for, where HEAD is the ref and the server says so
    """

    commit: str
    ref: str = ""
    tag: str = ""
    branch: str = ""


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """path: of the directory with the files; commit: that they are of

    place: the directory that was made for all of it, which nobody needs when the files are not needed any more
    """

    path: str
    commit: str
    place: str


def resolve(address: GitAddress, scratch: str, giver: Giver | None, check: Callable[[], None]) -> Resolved:
    """Which commit the address means now. Raises NotFound, Invalid, SystemFailure, Unavailable without git.

    scratch: path of a directory of the build; check: raises once nobody waits any more
    """
    if is_commit(address.ref):
        _agrees(address, address.ref)
        return Resolved(address.ref)
    if address.by_commit:
        return Resolved(address.checksum)
    with gitsecrets.given(giver, address) as given:
        git, ref = Git(scratch, given.configuration, given.agent, check), address.ref or _HEAD
        return _listed(address, ref, git("ls-remote", "--symref", "--", address.remote, ref, ref + _PEELED))


def _listed(address: GitAddress, ref: str, answer: str) -> Resolved:
    """The commit among the lines of ls-remote. A branch goes before a tag, as with `git checkout`."""
    lines = [line.partition("\t") for line in answer.splitlines()]
    found = {name: commit for commit, _, name in lines if not commit.startswith(_SYMBOLIC)}
    branch = next(
        (to.removeprefix(_SYMBOLIC) for to, _, name in lines if name == _HEAD and to.startswith(_SYMBOLIC)), ""
    )
    partial = _REFS + ref.removeprefix(_REFS)
    head, tag = _BRANCHES + ref.removeprefix(_BRANCHES), _TAGS + ref.removeprefix(_TAGS)
    name = next((each for each in (_HEAD if ref == _HEAD else partial, head, tag) if each in found), "")
    if not name or not is_commit(found[name]):
        raise NotFound(f"repository {address.shown} does not contain ref {ref}")
    peeled = found.get(tag + _PEELED, "") if name == tag else ""
    _agrees(address, found[name], peeled)
    if is_commit(peeled):
        return Resolved(peeled, name, found[name])
    return Resolved(found[name], name, branch=branch if name == _HEAD else "")


def _agrees(address: GitAddress, *commits: str) -> None:
    """Raise Invalid where the checksum of the address is that of another commit."""
    named = [commit for commit in commits if commit]
    wanted = address.checksum.lower()
    if wanted and not any(commit.startswith(wanted) for commit in named):
        raise Invalid(f"expected checksum to match {address.checksum}, got {' or '.join(named)}")


def check_out(
    address: GitAddress,
    resolved: Resolved,
    scratch: str,
    giver: Giver | None,
    check: Callable[[], None],
    keep_git_dir: bool = False,
) -> CheckedOut:
    """Fetch the commit and lay out its files in a new directory. Raises as `resolve` does.

    keep_git_dir: the files of git stay with them, unless only a directory of the repository is wanted
    """
    place = os.path.join(scratch, f"git-{secrets.token_hex(8)}")
    files = os.path.join(place, _FILES)
    os.makedirs(files, 0o755)
    with gitsecrets.given(giver, address) as given:
        git = Git(files, given.configuration, given.agent, check)
        commit = _fetched(git, address, resolved)
        git("checkout", "-q", "--force", "FETCH_HEAD" if resolved.ref else commit)
        if address.submodules and os.path.lexists(os.path.join(files, ".gitmodules")):
            whole = "submodule", "-q", "update", "--init", "--recursive"
            first_that_works(git, (*whole, "--depth=1"), whole)
        seconds = natural(git("log", "-1", "--format=%ct", commit).strip(), _LATEST) or 0
    if keep_git_dir and not address.subdir:
        git("remote", "add", "origin", address.shown)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(files, _HELD, "FETCH_HEAD"))
    else:
        _without_git(files)
    if address.commit_times:
        for path, is_link in _every(files):
            os.utime(path, (seconds, seconds), follow_symlinks=not is_link)
    return CheckedOut(_inside(files, address.subdir), commit, place)


def objects(
    address: GitAddress, resolved: Resolved, scratch: str, giver: Giver | None, check: Callable[[], None]
) -> tuple[bytes, bytes]:
    """The commit as git stores it, and the annotated tag, empty where there is none. Raises as `resolve` does."""
    place = os.path.join(scratch, f"git-{secrets.token_hex(8)}")
    os.mkdir(place, 0o755)
    try:
        with gitsecrets.given(giver, address) as given:
            git = Git(place, given.configuration, given.agent, check)
            commit = _fetched(git, address, resolved)
            tag = git("cat-file", "tag", resolved.tag) if resolved.tag else ""
            found = git("cat-file", "commit", commit), tag
    finally:
        remove_path(place)
    return found[0].encode("utf-8", "surrogateescape"), found[1].encode("utf-8", "surrogateescape")


def _fetched(git: Git, address: GitAddress, resolved: Resolved) -> str:
    """The commit's name, which is in a new repository then. Raises as `resolve` does."""
    size = ("--object-format=sha256",) if len(resolved.commit) == 64 else ()
    git("init", "-q", *size)
    _fetch(git, address, resolved)
    commit = git("rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
    _is_the_same(git, resolved, commit)
    return commit


def _fetch(git: Git, address: GitAddress, resolved: Resolved) -> None:
    """Fetch the commit. A server may have no part of a history to give, or no commit that no ref names."""
    fetch = ("fetch", "-q", "--no-tags", "--no-recurse-submodules", "--update-head-ok")
    wanted = resolved.ref or resolved.commit
    kept = f"{wanted}:{wanted}" if resolved.ref.startswith(_TAGS) else wanted
    shallow = (*fetch, "--depth=1", "--", address.remote, kept)
    whole = (*fetch, "--", address.remote, kept)
    if resolved.ref:
        first_that_works(git, shallow, whole)
        return
    every = (*fetch, "--", address.remote, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    if first_that_works(git, shallow, whole, every) is not None and not _has(git, resolved.commit):
        raise NotFound(f"repository {address.shown} does not contain commit {resolved.commit}")
    with open(os.path.join(git.place, _HELD, "FETCH_HEAD"), "w") as file:
        file.write(f"{resolved.commit}\t\t{address.shown}\n")


def _has(git: Git, commit: str) -> bool:
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except SystemFailure:
        return False
    return True


def _is_the_same(git: Git, resolved: Resolved, commit: str) -> None:
    """Raise SystemFailure where the repository has changed since it was asked."""
    named = git("rev-parse", "--verify", "FETCH_HEAD").strip()
    if resolved.commit not in (commit, named):
        raise SystemFailure(f"the repository has changed meanwhile: {commit} came for {resolved.commit}")


def _without_git(files: str) -> None:
    """Remove git's own files, also those of submodules: a directory, or a file that names one."""
    for path, _ in list(_every(files)):
        if os.path.basename(path) != _HELD:
            continue
        with contextlib.suppress(FileNotFoundError):  # it was below another one
            if stat.S_ISDIR(os.lstat(path).st_mode):
                remove_path(path)
            else:
                os.unlink(path)


def _every(top: str) -> Iterator[tuple[str, bool]]:
    """The path of each entry below a directory, itself last, and whether it is a symbolic link."""
    for above, directories, names in os.walk(top, topdown=False):
        for name in (*names, *directories):
            path = os.path.join(above, name)
            yield path, os.path.islink(path)
    yield top, False


def _inside(files: str, subdir: str) -> str:
    """The path of a directory of the repository that no link leads to. Raises NotFound, Invalid."""
    if not subdir:
        return files
    root = os.open(files, _DIRECTORY)
    try:
        os.close(open_beneath(root, subdir, _DIRECTORY, no_symlinks=True))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NotFound(f"the repository has no directory {subdir}") from error
        raise Invalid(f"invalid subdir {subdir}: a link leads to it, or out of the repository") from error
    finally:
        os.close(root)
    return os.path.join(files, subdir)
