"""Which ids containers have on the host (`--userns-remap`): the subordinate ids of a user, as with dockerd.

The daemon's main thread reads the host's files before the API answers; each later start of a container finds the same
maps, whatever happened to the files, until the daemon is started again. `sandbox.remapped` makes the user namespaces.
"""

import functools
import grp
import itertools
import os
import pwd
import re
import shutil
import subprocess

from engine.daemon.containers.shapes import HostConfig
from engine.errors import Invalid, SystemFailure, Unavailable
from engine.kernel import subids, userns
from engine.kernel.idmaps import Ids, Map
from engine.literals import natural
from engine.settings.every import Settings

_DEFAULT, _DEFAULT_USER = "default", "dockremap"
_COUNT, _FIRST = 65536, 100000
_LAST_ID = 0xFFFFFFFE
_SECONDS = 60
_WITH_IDMAPPED_LAYERS = [5, 19]
# Below the data root: volumes, what a command of a build has mounted, and copies of images.
_KEPT = re.compile("volumes(/.*)?|(tmp/build-[^/]+|contexts|buildmounts)/.+|containers/[^/]+/images/.+", re.DOTALL)
_UNMAPPED_ONLY: tuple[tuple[str, object, str], ...] = (
    (
        "Privileged",
        True,
        "privileged mode is incompatible with user namespaces.  You must run the container in the host namespace when"
        " running privileged mode",
    ),
    ("NetworkMode", "host", "cannot share the host's network namespace when user namespaces are enabled"),
    ("PidMode", "host", "cannot share the host PID namespace when user namespaces are enabled"),
)


def of(settings: Settings, host_config: HostConfig) -> Ids | None:
    """The ids of a container on the host; None for one in the host's user namespace."""
    if not settings.userns_remap or host_config["UsernsMode"] == "host":
        return None
    return ids(settings.userns_remap)


def check(settings: Settings, host_config: HostConfig) -> None:
    """Raise Invalid, in dockerd's words, for a container that needs the host's user namespace and does not ask for it.

    dockerd checks this at create and at each start.
    """
    if of(settings, host_config) is None:
        return
    for key, value, words in _UNMAPPED_ONLY:
        if host_config[key] == value:  # type: ignore[literal-required]  # a key of HostConfig, as the table says
            raise Invalid(words)


def kept(source: str, data_root: str, *, asked: bool) -> str:
    """The path, without symbolic links up to the data root, of files that the data root keeps for containers.

    Empty for another path: for one outside, and for what is the daemon's own, such as its records of containers.
    asked: a client has asked for it; else the daemon has, for /etc/hosts and its like, perhaps of another container
    """
    real = os.path.realpath(data_root)
    for path in (data_root, real):
        place = f"{path.rstrip('/')}/"
        rest = source.removeprefix(place)
        if rest != source and ".." not in rest.split("/") and (_KEPT.fullmatch(rest) or not asked):
            return f"{real.rstrip('/')}/{rest}"
    return ""


def owner(settings: Settings, host_config: HostConfig, source: str) -> tuple[int, int]:
    """Who is to own a directory of the host that is made for a bind: the container's root, as with dockerd."""
    mapped = of(settings, host_config)
    return mapped.root if mapped is not None and not kept(source, settings.data_root, asked=True) else (0, 0)


@functools.cache
def ids(asked: str) -> Ids:
    """The maps for the value of the option.

    Raises Invalid for one that names nobody, or nobody with ids, Unavailable for a kernel that cannot show layers so.
    """
    if not userns.is_hosts():
        raise Invalid("--userns-remap: this daemon is in a user namespace itself, and so are its containers")
    release = os.uname().release
    version = [natural(each, 9999) or 0 for each in re.findall(r"[0-9]+", release)[:2]]
    if version < _WITH_IDMAPPED_LAYERS:
        raise Unavailable(f"--userns-remap needs Linux 5.19 (idmapped layers of overlays), and this is {release}")
    user = _user(asked)
    if user == "root":
        raise Invalid("--userns-remap: root cannot be remapped with itself")
    names = (user, str(_uid(user)))
    return Ids(_map("uid", names), _map("gid", names))


def _user(asked: str) -> str:
    """The name of the user that `USER[:GROUP]` means, where each is a name or a number."""
    who, colon, group = asked.partition(":")
    if not who or ":" in group:
        raise Invalid(f'invalid user/group specification in --userns-remap: "{asked}"')
    if who == _DEFAULT:
        who = _DEFAULT_USER
        try:
            pwd.getpwnam(who)
        except KeyError:
            _make_default()
    number = natural(who, _LAST_ID)
    try:
        user = pwd.getpwnam(who) if number is None else pwd.getpwuid(number)
    except KeyError as error:
        raise Invalid(f"--userns-remap: {who} has no entry in /etc/passwd") from error
    group = group if colon else who
    number = natural(group, _LAST_ID)
    try:
        grp.getgrnam(group) if number is None else grp.getgrgid(number)
    except KeyError as error:
        raise Invalid(f"--userns-remap: {group} has no entry in /etc/group") from error
    return user.pw_name


def _uid(user: str) -> int:
    return pwd.getpwnam(user).pw_uid


def _map(kind: str, names: tuple[str, ...]) -> Map:
    """One range after the other, from 0 on."""
    found, inside = [], 0
    for first, count in subids.read(kind, names):
        found.append((inside, first, count))
        inside += count
    if not found:
        raise Invalid(f'no sub{kind} ranges found for user "{names[0]}"')
    ranges = sorted((first, first + count) for _, first, count in found)
    if any(end > following for (_, end), (following, _) in itertools.pairwise(ranges)):
        raise Invalid(f'sub{kind} ranges of user "{names[0]}" overlap')
    return tuple(found)


def _make_default() -> None:
    """Make the user that stands for nobody but containers, with ids that no other has. Raises SystemFailure."""
    first = max([_FIRST, *map(_end, ("uid", "gid"))])
    wanted = f"{first}-{first + _COUNT - 1}"
    for words in (
        ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", _DEFAULT_USER],
        ["usermod", "--add-subuids", wanted, "--add-subgids", wanted, _DEFAULT_USER],
    ):
        program = shutil.which(words[0])
        if program is None:
            raise SystemFailure(f"--userns-remap=default: {words[0]} is not installed; make the user {_DEFAULT_USER}")
        done = subprocess.run([program, *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise SystemFailure(f"--userns-remap=default: {words[0]}: {said or done.returncode}")


def _end(kind: str) -> int:
    """The first id after all that anybody has."""
    return max((first + count for first, count in subids.read(kind)), default=0)
