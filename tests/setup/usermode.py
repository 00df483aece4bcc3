"""A Linux that is a program of this host (user-mode Linux), for guests whose tests would take too long under emulation.

Run by `python3 -m tests --long usermode` as root on Debian, once: it took 24 minutes on two slow processors, beside
other work. Debian's own user-mode Linux has no nf_tables for IP, so the kernel is built from Debian's sources, with the
options that systemd and the engine use and nothing as a module. It runs on one processor, and has no cpusets. Its
processes run at this host's speed; a system call took 35 us there, and 0.5 on the host (ptrace(2)).

It boots the disk of `setup.guest`, and mounts directories of this host (hostfs) where the other guest has 9p.
"""

import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.setup.booting import LONGEST, marked, run
from tests.setup.guest import built as guest

SOURCE = "linux-source-6.1"
TOOLS = ("flex", "bison", "m4", "bc", "libfl2", "libsigsegv2")
NEEDED = ("gcc", "make", "perl", "xz", "apt-get", "dpkg-deb")
OPTIONS = (
    # What systemd asks for, and a guest's own files.
    *("CGROUPS", "MEMCG", "BLK_CGROUP", "CGROUP_SCHED", "CFS_BANDWIDTH", "CGROUP_PIDS", "CGROUP_FREEZER"),
    *("CGROUP_DEVICE", "CGROUP_CPUACCT", "CGROUP_BPF", "BPF_SYSCALL", "BLK_DEV_THROTTLING", "PSI", "NAMESPACES"),
    *("UTS_NS", "IPC_NS", "USER_NS", "PID_NS", "NET_NS", "SYSVIPC", "POSIX_MQUEUE", "FHANDLE", "FANOTIFY", "AUTOFS_FS"),
    *("DEVTMPFS", "DEVTMPFS_MOUNT", "TMPFS_POSIX_ACL", "TMPFS_XATTR", "EXT4_FS", "EXT4_FS_POSIX_ACL"),
    *("EXT4_FS_SECURITY", "BLK_DEV_LOOP", "HOSTFS", "UNIX", "UNIX_DIAG", "PACKET", "INET_DIAG", "KEYS", "CRYPTO_HMAC"),
    *("CRYPTO_SHA256", "CRYPTO_USER_API_HASH", "SECURITY", "SECURITYFS", "SECURITY_NETWORK", "AUDIT"),
    *("SECURITY_APPARMOR", "SECCOMP", "SECCOMP_FILTER", "CHECKPOINT_RESTORE", "USERFAULTFD", "AIO", "IO_URING"),
    # What containers are made of.
    *("OVERLAY_FS", "FUSE_FS", "SQUASHFS", "BINFMT_MISC", "TUN", "VETH", "BRIDGE", "BRIDGE_VLAN_FILTERING", "DUMMY"),
    *("VLAN_8021Q", "MACVLAN", "IPVLAN", "VXLAN", "IPV6", "IPV6_MULTIPLE_TABLES", "IP_ADVANCED_ROUTER"),
    *("IP_MULTIPLE_TABLES", "NET_SCHED", "NET_SCH_NETEM", "NET_SCH_TBF", "NET_SCH_INGRESS", "IP_SCTP"),
    # The firewall, and what the tests look at it with.
    *("NETFILTER", "NETFILTER_ADVANCED", "NETFILTER_INGRESS", "BRIDGE_NETFILTER", "NF_CONNTRACK", "NF_CT_NETLINK"),
    *("NF_CT_PROTO_SCTP", "NF_NAT", "NF_TABLES", "NF_TABLES_INET", "NF_TABLES_IPV4", "NF_TABLES_IPV6", "NF_TABLES_ARP"),
    *("NF_TABLES_NETDEV", "NF_TABLES_BRIDGE", "NFT_CT", "NFT_NAT", "NFT_MASQ", "NFT_REDIR", "NFT_REJECT", "NFT_LIMIT"),
    *("NFT_LOG", "NFT_FIB_INET", "NFT_FIB_IPV4", "NFT_FIB_IPV6", "NFT_NUMGEN", "NFT_HASH", "NFT_OBJREF", "NFT_QUOTA"),
    *("NFT_COMPAT", "IP_NF_IPTABLES", "IP_NF_FILTER", "IP_NF_NAT", "IP6_NF_IPTABLES", "IP6_NF_FILTER", "IP6_NF_NAT"),
    *("IP_VS", "IP_VS_IPV6", "IP_VS_PROTO_TCP", "IP_VS_PROTO_UDP", "IP_VS_RR", "IP_VS_NFCT"),
)
LEFT_OUT = ("IPV6_SIT",)  # Debian has it as a module: built in, it gives each network namespace a link


def place(cache: Path) -> Path:
    """Where the kernel is: another recipe is another one."""
    return cache / f"usermode-{marked(__file__)}"


def complete(cache: Path) -> bool:
    """Whether it is built: the file has its name only when it is whole."""
    return place(cache).is_file()


def unable() -> str:
    """What this host lacks to build and boot it, in words; empty when it can."""
    if platform.machine() != "x86_64":
        return f"on {platform.machine()}"
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    return f"without {' '.join(lacking)}" if lacking else ""


def build(cache: Path) -> None:
    """Build it; CalledProcessError with the words of what failed on stderr."""
    with tempfile.TemporaryDirectory(dir=cache, prefix="usermode-") as scratch:
        work = Path(scratch)
        for package in (SOURCE, *TOOLS):
            _unpack(package, work)
        tree = work / SOURCE
        run("tar", "-xJf", next((work / "usr/src").glob(f"{SOURCE}.tar.*")), "-C", work)
        chosen = [word for option in OPTIONS for word in ("--enable", option)]
        chosen += [word for option in LEFT_OUT for word in ("--disable", option)]
        libraries = work / f"usr/lib/{platform.machine()}-linux-gnu"
        tools = {
            "PATH": f"{work / 'usr/bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": libraries,
            "BISON_PKGDATADIR": work / "usr/share/bison",
            "M4": work / "usr/bin/m4",
        }
        in_tree = ("env", "-C", tree, *(f"{name}={value}" for name, value in tools.items()))
        run(*in_tree, "make", "ARCH=um", "x86_64_defconfig")
        run(*in_tree, "scripts/config", *chosen)
        run(*in_tree, "make", "ARCH=um", "olddefconfig")
        run(*in_tree, "nice", "make", "ARCH=um", f"-j{os.cpu_count()}", "linux")
        run("strip", tree / "linux")
        (tree / "linux").rename(place(cache))


def _unpack(package: str, at: Path) -> None:
    """Put the files of a Debian package below a directory, without installing it."""
    run("env", "-C", at, "apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package)
    for archive in at.glob("*.deb"):
        run("dpkg-deb", "--extract", archive, at)
        archive.unlink()


def boot(cache: Path, at: Path, share: Path, log: Path, memory: int = 1024, longest: float = LONGEST) -> float:
    """Boot the guest's disk, have SHARE/run.sh run as root, and wait until the guest is off; the seconds it was on.

    at: the disk of this boot, a copy: the kernel locks even a file that it only reads, and no other guest could boot
    from it. memory: in MB, of which this host gives what is used. The console is in `log`. TimeoutExpired after
    `longest` seconds.
    """
    run("cp", "--sparse=always", guest(cache).files / "disk.img", at)
    command = [
        *(str(place(cache)), f"mem={memory}M", f"ubd0={at}", "root=/dev/ubda", "rw"),
        *("con=null", "con0=null,fd:1", "fstab=no", "systemd.show_status=false", "loglevel=4", f"share={share}"),
    ]
    began = time.monotonic()
    with open(log, "ab") as file:
        # Each process of the guest is one of this host, in a group that is named for the kernel. One that powers off
        # ends them itself.
        kernel = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        try:
            status = kernel.wait(longest)
        except BaseException:
            os.killpg(kernel.pid, signal.SIGKILL)
            kernel.wait()
            raise
    if status:
        raise subprocess.CalledProcessError(status, command)
    return time.monotonic() - began
