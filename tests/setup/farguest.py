"""A guest of aarch64 for a host of another architecture: Debian's packages, unpacked and never configured.

Run by the set-up (`--guests`) and by tests/guests, as root on Debian. No program of the guest runs on this host: under
emulation the packages' own scripts would take half an hour. So it has no systemd. Its process 1 is a script that mounts
what a host has, with cgroups v2 alone, and runs what the share brings.
"""

import gzip
import platform
import shutil
import subprocess
from pathlib import Path

from tests.setup.booting import MACHINES, MOUNT, SHARE, Guest, archive, marked, run

MACHINE = MACHINES["aarch64"]
SUITE = "bookworm"
INCLUDED = ("python3", "python3-cffi-backend", "busybox-static", "iproute2", "nftables", MACHINE.kernel)
BUILDERS = ("debootstrap", "mke2fs", "unshare", "dpkg-deb", "busybox")
# What the kernel needs before it has its disk; the order is made from what each needs itself.
EARLY = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "9p", "9pnet_virtio")
NEEDLESS = ("kernel/sound", *(f"kernel/drivers/{name}" for name in ("gpu", "media", "iio", "hwmon", "staging", "usb")))
SIZE = "3G"  # the file has holes where the guest has nothing
FIRST = """#!/bin/busybox sh
busybox mkdir -p /dev /disk
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /order); do busybox insmod $module; done
busybox mount -t ext4 /dev/vda /disk
exec busybox switch_root /disk /sbin/init
"""
INIT = f"""#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm {SHARE}
mount -t devpts -o mode=620,ptmxmode=666 pts /dev/pts
for place in /dev/shm /run /tmp; do mount -t tmpfs none $place; done
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
hostname guest
{MOUNT} && sh {SHARE}/run.sh
sync
busybox poweroff -f
"""


def place(cache: Path) -> Path:
    """Where the guest is: another recipe is another guest."""
    return cache / f"guest-{MACHINE.debian}-{marked(__file__)}"


def complete(cache: Path) -> bool:
    """Whether it is built: the directory has its name only when everything is in it."""
    return place(cache).is_dir()


def built(cache: Path) -> Guest:
    """The guest, which is complete."""
    return Guest(MACHINE, place(cache))


def unable() -> str:
    """What the host lacks to build and boot a guest, in words; empty when it can."""
    if platform.machine() == "aarch64":
        return "this is no other architecture"
    lacking = [name for name in (*BUILDERS, MACHINE.qemu[0], "qemu-img") if shutil.which(name) is None]
    return f"without {' '.join(lacking)}" if lacking else ""


def build(cache: Path) -> None:
    """Build it, which takes a minute; CalledProcessError with the words of what failed on stderr."""
    made = place(cache)
    part = made.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    root = part / "root"
    root.mkdir(parents=True)
    words = ("--foreign", f"--arch={MACHINE.debian}", "--variant=minbase", f"--include={','.join(INCLUDED)}")
    run("unshare", "-m", "debootstrap", *words, SUITE, root, archive())
    unpack(root)
    shutil.copy(next((root / "boot").glob("vmlinuz-*")), part / "vmlinuz")
    modules = next((root / "usr/lib/modules").iterdir())
    for name in NEEDLESS:
        shutil.rmtree(modules / name, ignore_errors=True)
    run("busybox", "depmod", "-b", root, modules.name)
    first(root, modules, part)
    furnish(root)
    run("truncate", "-s", SIZE, part / "disk.img")
    run("mke2fs", "-q", "-t", "ext4", "-d", root, part / "disk.img")
    shutil.rmtree(root)
    part.rename(made)


def unpack(root: Path) -> None:
    """Put the files of all packages into the tree; of most, debootstrap has only fetched the package."""
    packages = root / "var/cache/apt/archives"
    for package in sorted(packages.glob("*.deb")):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as reading:
            # /bin and /lib are links into /usr, which a package's own directories must not replace.
            words = ("tar", "-x", "--keep-directory-symlink", "-C", str(root))
            subprocess.run(words, stdin=reading.stdout, check=True)
        package.unlink()


def furnish(root: Path) -> None:
    """The files that make a host of it, some of which the packages' scripts would have made."""
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    (root / "etc/hosts").write_text("127.0.0.1 localhost guest\n")
    (root / "etc/resolv.conf").write_text("")
    for name in ("proc", "sys", "dev", "run", "tmp", "opt"):
        if (root / name).is_symlink():
            (root / name).unlink()
        (root / name).mkdir(exist_ok=True)
    # The kernel's way to its modules, as on small hosts: kmod's would need an index that kmod itself has to make.
    (root / "usr/sbin/modprobe").unlink()
    (root / "usr/sbin/modprobe").symlink_to("/bin/busybox")
    init = root / "usr/sbin/init"
    init.write_text(INIT)
    init.chmod(0o755)


def first(root: Path, modules: Path, into: Path) -> None:
    """The initrd (cpio in the form `newc`): busybox, the early modules, and the script that goes on from the disk."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        name, _, others = line.partition(":")
        needs[Path(name).stem] = (name, [Path(other).stem for other in others.split()])
    order: list[str] = []

    def come(module: str) -> None:
        """A module after those that it needs."""
        for other in needs[module][1]:
            if other not in order:
                come(other)
        if module not in order:
            order.append(module)

    for module in EARLY:
        if module in needs:  # or it is a part of the kernel itself
            come(module)
    tree = into / "initrd.tree"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(root / "usr/bin/busybox", tree / "bin")
    for module in order:
        shutil.copy(modules / needs[module][0], tree)
    (tree / "order").write_text("".join(f"/{module}.ko\n" for module in order))
    (tree / "init").write_text(FIRST)
    (tree / "init").chmod(0o755)
    listed = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    words = ("busybox", "cpio", "-o", "-H", "newc")
    packed = subprocess.run(words, cwd=tree, input=listed.encode(), stdout=subprocess.PIPE, check=True).stdout
    (into / "initrd").write_bytes(gzip.compress(packed, 1))
    shutil.rmtree(tree)
