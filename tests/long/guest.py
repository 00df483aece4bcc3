"""The jobs `guest` and `usermode`: tests of tests/api and tests/clients on another kernel, with cgroups of version 2
and systemd.

The guest shows this machine's files below an overlay of its own: there the tests have the same Python, programs and
tree. /tmp is on the guest's own disk, because no overlay of a container's lies on another one. `guest` boots it under
emulation, once for all parts; `usermode` boots it with a Linux that is a program, once for each part, as many at a time
as there are processors.
"""

import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from tests.__main__ import CACHE, PROJECT
from tests.setup import guest, usermode
from tests.setup.booting import OF_THE_MACHINE, SHARE

NAME, USERMODE = "guest", "usermode"
Part = tuple[str, str, Mapping[str, str]]
HOURS = 4
MEMORY = 6144
SLOWER = 8  # how much longer the tests wait for what is to happen
HANG = f"--timeout={SLOWER * 120}"
# The machine's files as the root, with the guest's own kernel modules. What the guest has mounted comes along; below it
# is nothing, because the machine's own /proc would be seen by a test that unmounts the guest's.
ENTER = f"""set -e
mkdir -p /machine /own/upper /own/work /own/tmp /own/root
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro {OF_THE_MACHINE} /machine ||
    mount -t hostfs -o /,ro none /machine
grep -q overlay /proc/filesystems || modprobe overlay
mount -t overlay -o lowerdir=/machine,upperdir=/own/upper,workdir=/own/work,xino=off overlay /own/root
mkdir -p /own/root/usr/lib/modules /own/root{SHARE} /own/root/old
mount --bind /lib/modules /own/root/usr/lib/modules
for each in proc sys dev run; do mount -t tmpfs none /own/root/$each; mount --rbind /$each /own/root/$each; done
chmod 1777 /own/tmp
mount --bind /own/tmp /own/root/tmp
mount --bind {SHARE} /own/root{SHARE}
unshare -m --propagation private sh -ec 'cd /own/root; pivot_root . old; cd /; umount -l /old; exec sh {SHARE}/tests.sh'
"""


def run(parts: Sequence[Part], job: str = NAME) -> list[str]:
    """Boot it, and have pytest run each part there: its name, its folder or files, and what is in the environment.

    job: `NAME` or `USERMODE`. Returns the names of the parts in which a test failed. Raises FileNotFoundError with the
    words for what this host lacks, and TimeoutExpired after some hours. What pytest prints is shown at the end of a
    boot.
    """
    _build(guest, "guest")
    if job == NAME:
        return _boot(parts, job)
    _build(usermode, "user-mode Linux")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [name for failed in pool.map(lambda part: _boot([part], job), parts) for name in failed]


def _build(what: ModuleType, name: str) -> None:
    if what.complete(CACHE):
        return
    if reason := what.unable():
        raise FileNotFoundError(f"no {name} can be built {reason}")
    print(f"tests.long: building a {name}, which can take half an hour", flush=True)
    what.build(CACHE)


def _boot(parts: Sequence[Part], job: str) -> list[str]:
    """One boot; the names of its parts in which a test failed."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        share, console = place / "share", place / "console"
        share.mkdir()
        (share / "run.sh").write_text(ENTER)
        (share / "tests.sh").write_text(script(parts))
        if job == NAME:
            built = guest.built(CACHE)
            built.boot(built.disk(place / "disk"), share, console, MEMORY, shown=True, longest=HOURS * 3600)
        else:
            usermode.boot(CACHE, place / "disk", share, console, MEMORY, longest=HOURS * 3600)
        failed = []
        for name, _, _ in parts:
            with contextlib.suppress(FileNotFoundError):
                print((share / name).read_text(errors="replace"), flush=True)
            if not (share / f"{name}.passed").exists():
                failed.append(f"{job} {name}")
        if failed:
            print(console.read_text(errors="replace")[-3000:])
    return failed


def script(parts: Sequence[Part]) -> str:
    """What is run in the guest."""
    common = {"HOME": os.environ.get("HOME", "/root"), "PATH": os.environ["PATH"], "ENGINE_TEST_SLOWER": str(SLOWER)}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in common.items()]
    lines.append(f"cd {shlex.quote(str(PROJECT))}")
    for name, files, variables in parts:
        given = " ".join(f"{each}={shlex.quote(value)}" for each, value in variables.items())
        pytest = f"{shlex.quote(sys.executable)} -m pytest -p no:cacheprovider {HANG} -n 2 --dist loadfile -q -rf"
        output = f"{SHARE}/{name}"
        lines.append(f'{given} {pytest} -m "not alone" {files} > {output} 2>&1 && touch {output}.passed')
    return "\n".join([*lines, ""])
