"""A Debian guest with systemd and cgroup v2, for what this host cannot show: built once below the cache, then booted.

Run by the set-up and by tests/guests, as root on Debian.
"""

import platform
import shutil
from pathlib import Path

from tests.setup.booting import MACHINES, MOUNT, SHARE, Guest, Machine, archive, marked, run

SUITE = "bookworm"
INCLUDED = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "initramfs-tools", "e2fsprogs", "procps", "util-linux-extra"),
    *("python3", "python3-cffi-backend", "busybox-static", "iproute2", "nftables", "curl", "ca-certificates"),
    *("uidmap", "passt", "libpam-systemd", "dbus-user-session"),
    *("apparmor", "iputils-ping", "selinux-policy-default", "policycoreutils", "redis-server"),
)
BUILDERS = ("debootstrap", "mke2fs", "unshare", "chroot")
MODULES = ("virtio_blk", "virtio_pci", "ext4", "9p", "9pnet_virtio")
POLICY = "default"  # of SELinux, for a guest whose kernel is told to run it
SIZE = "6G"  # the file has holes where the guest has nothing
# Below user-mode Linux the share is a directory of this host, which the kernel's command line names.
OR_HOSTFS = f'mount -t hostfs -o "$$(sed "s/.* share=//; s/ .*//" /proc/cmdline)" none {SHARE}'
# Runs what the share has to be run, on the console, and powers the guest off.
SERVICE = f"""[Unit]
Description=What the share has to be run
After=basic.target dbus.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mkdir -p {SHARE}; {{ {MOUNT} || {OR_HOSTFS}; }} && sh {SHARE}/run.sh'
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TimeoutStartSec=infinity

[Install]
WantedBy=multi-user.target
"""


def machine() -> Machine | None:
    """The guest of this host's architecture; None where there is none."""
    return MACHINES.get(platform.machine())


def place(cache: Path, of: Machine) -> Path:
    """Where the guest is: another recipe is another guest."""
    return cache / f"guest-{of.debian}-{marked(__file__)}"


def complete(cache: Path) -> bool:
    """Whether it is built: the directory has its name only when everything is in it."""
    of = machine()
    return of is not None and place(cache, of).is_dir()


def built(cache: Path) -> Guest:
    """The guest, which is complete."""
    of = machine()
    assert of is not None
    return Guest(of, place(cache, of))


def unable() -> str:
    """What the host lacks to build and boot a guest, in words; empty when it can."""
    of = machine()
    if of is None:
        return f"there is no guest for {platform.machine()}"
    lacking = [name for name in (*BUILDERS, of.qemu[0], "qemu-img") if shutil.which(name) is None]
    return f"without {' '.join(lacking)}" if lacking else ""


def build(cache: Path) -> None:
    """Build it, which takes some three minutes; CalledProcessError with the words of what failed on stderr."""
    of = machine()
    assert of is not None
    made = place(cache, of)
    part = made.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    root = part / "root"
    root.mkdir(parents=True)
    words = (f"--arch={of.debian}", "--variant=minbase", f"--include={','.join((*INCLUDED, of.kernel))}")
    # In a mount namespace of its own: nothing that debootstrap mounts is left on this host.
    run("unshare", "-m", "debootstrap", *words, SUITE, root, archive())
    furnish(root)
    run("unshare", "-m", "chroot", root, "mkinitramfs", "-o", "/initrd", next((root / "lib/modules").iterdir()).name)
    (root / "initrd").rename(part / "initrd")
    shutil.copy(next((root / "boot").glob("vmlinuz-*")), part / "vmlinuz")
    label(root)
    run("truncate", "-s", SIZE, part / "disk.img")
    run("mke2fs", "-q", "-t", "ext4", "-d", root, part / "disk.img")
    shutil.rmtree(root)
    part.rename(made)


def label(root: Path) -> None:
    """Give the files their labels of SELinux: the kernel of this host keeps them without knowing them."""
    contexts = f"/etc/selinux/{POLICY}/contexts/files/file_contexts"
    script = 'mount -t proc proc "$1/proc" && exec chroot "$1" setfiles -F "$2" /'  # it asks /proc for each link
    run("unshare", "-m", "sh", "-c", script, "sh", root, contexts)


def furnish(root: Path) -> None:
    """The files that make a Debian this guest."""
    (root / "etc/hostname").write_text("guest\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost guest\n")
    (root / "etc/fstab").write_text("/dev/vda / ext4 rw,noatime 0 0\n")
    (root / "etc/resolv.conf").write_text("")
    units = root / "etc/systemd/system"
    timers = ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer")
    for unit in (*timers, "redis-server.service"):
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    (units / "share.service").write_text(SERVICE)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/share.service").symlink_to("../share.service")
    (root / "etc/selinux/config").write_text(f"SELINUX=permissive\nSELINUXTYPE={POLICY}\n")
    settings = root / "etc/initramfs-tools"
    (settings / "modules").write_text("".join(f"{name}\n" for name in MODULES))
    conf = settings / "initramfs.conf"
    conf.write_text(conf.read_text().replace("MODULES=most", "MODULES=list"))
