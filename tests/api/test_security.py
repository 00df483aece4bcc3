"""The floor under every container: capabilities, seccomp, privileges, masked and read-only paths, devices."""

import re
from collections.abc import Callable

import pytest

from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")

# Bits of docker's 14: chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot
# mknod audit_write setfcap.
DEFAULT_CAPABILITIES = 0xA80425FB
NET_ADMIN = 1 << 12
CHOWN = 1 << 0
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts")
MASKED_DIRECTORIES = ("/proc/acpi", "/proc/scsi", "/sys/firmware")
READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


def host(**fields: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **fields}


def status(daemon: Daemon, **body: object) -> dict[str, str]:
    """/proc/self/status inside, field by field."""
    lines = daemon.shell("cat /proc/self/status", **body).split("\n")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def capabilities(fields: dict[str, str]) -> dict[str, int]:
    """The five sets as numbers."""
    return {name: int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}


def test_the_capabilities_are_dockers_fourteen(daemon: Daemon) -> None:
    """Effective, permitted and bounding; nothing inheritable or ambient."""
    assert capabilities(status(daemon)) == {
        "CapInh": 0,
        "CapPrm": DEFAULT_CAPABILITIES,
        "CapEff": DEFAULT_CAPABILITIES,
        "CapBnd": DEFAULT_CAPABILITIES,
        "CapAmb": 0,
    }


def test_a_user_has_no_capability(daemon: Daemon) -> None:
    """Only the bounding set stays."""
    found = capabilities(status(daemon, User="1000:1000"))
    assert (found["CapEff"], found["CapPrm"], found["CapAmb"]) == (0, 0, 0)
    assert found["CapBnd"] == DEFAULT_CAPABILITIES


@pytest.mark.parametrize(
    ("add", "drop", "wanted"),
    [
        (["NET_ADMIN"], [], DEFAULT_CAPABILITIES | NET_ADMIN),
        (["cap_net_admin"], ["CAP_CHOWN"], (DEFAULT_CAPABILITIES | NET_ADMIN) & ~CHOWN),
        ([], ["ALL"], 0),
        (["CHOWN"], ["all"], CHOWN),
    ],
)
def test_capabilities_are_added_and_dropped(daemon: Daemon, add: list, drop: list, wanted: int) -> None:
    """With and without CAP_, in any case; ALL."""
    found = capabilities(status(daemon, HostConfig=host(CapAdd=add, CapDrop=drop)))
    assert (found["CapEff"], found["CapBnd"]) == (wanted, wanted)


def test_an_unknown_capability_is_refused(daemon: Daemon) -> None:
    """The transcript, call 51."""
    body = {"Image": "busybox", "HostConfig": {"CapAdd": ["NO_SUCH_CAP"]}}
    answer = daemon.request("POST", "/containers/create", body)
    assert (answer.status, answer.message) == (400, 'invalid CapAdd: unknown capability: "CAP_NO_SUCH_CAP"')


def test_system_calls_are_filtered(daemon: Daemon) -> None:
    """Seccomp mode 2; what the default profile refuses is refused with EPERM."""
    assert status(daemon)["Seccomp"] == "2"
    output = daemon.run("unshare", "-m", "true")
    assert output.status != 0 and b"Operation not permitted" in output.stderr
    output = daemon.run("mount", "-t", "tmpfs", "x", "/tmp", HostConfig=host(CapAdd=["SYS_ADMIN"], CapDrop=[]))
    assert output.status == 0, output


def test_no_new_privileges_is_off_by_default(daemon: Daemon) -> None:
    """It is off with docker too; the option is in test_isolation.py."""
    assert status(daemon)["NoNewPrivs"] == "0"


def test_masked_paths_say_nothing(daemon: Daemon) -> None:
    """Files are /dev/null, directories empty."""
    files = " ".join(MASKED)
    assert daemon.shell(f"for f in {files}; do test ! -e $f || head -c 10 $f | wc -c; done | sort -u") in ("", "0")
    directories = " ".join(MASKED_DIRECTORIES)
    assert daemon.shell(f"for d in {directories}; do test ! -d $d || ls $d; done") == ""


def test_read_only_paths_cannot_be_written(daemon: Daemon) -> None:
    """Also by root."""
    mounts = daemon.shell("cat /proc/mounts")
    for path in READ_ONLY:
        if daemon.run("test", "-e", path).status == 0:
            assert re.search(rf"^\S+ {path} \S+ ro[, ]", mounts, re.MULTILINE), path
    output = daemon.run("sh", "-c", "echo 1 > /proc/sys/kernel/printk")
    assert output.status != 0 and b"Read-only file system" in output.stderr
    output = daemon.run("sh", "-c", "test ! -e /proc/sysrq-trigger || ! echo h > /proc/sysrq-trigger")
    assert output.status == 0


def test_masks_can_be_taken_away(daemon: Daemon, container: Callable[..., str]) -> None:
    """MaskedPaths and ReadonlyPaths given as empty lists."""
    body = {"HostConfig": host(MaskedPaths=[], ReadonlyPaths=[])}
    mounts = daemon.shell("cat /proc/mounts", **body)
    assert " /proc/sys " not in mounts and " /proc/kcore " not in mounts
    assert daemon.inspect(container("true", **body))["HostConfig"]["MaskedPaths"] == []


def test_devices_of_the_host_are_out_of_reach(daemon: Daemon) -> None:
    """A node can be made (CAP_MKNOD), but the device cgroup refuses to open it."""
    output = daemon.run("sh", "-c", "mknod /dev/mem c 1 1 && head -c 1 /dev/mem")
    assert output.status != 0 and b"Operation not permitted" in output.stderr
    assert daemon.run("sh", "-c", "mknod /n c 1 3 && echo x > /n").status == 0


def test_the_kernel_log_and_modules_are_out_of_reach(daemon: Daemon) -> None:
    """Neither the capability nor the system call."""
    assert daemon.run("insmod", "/bin/busybox").status != 0
    assert daemon.run("reboot", "-f").status != 0
    assert daemon.run("swapon", "/bin/busybox").status != 0


def test_keys_of_the_host_are_not_shared(daemon: Daemon) -> None:
    """/proc/keys is masked and keyctl refused by the profile."""
    assert daemon.shell("cat /proc/keys 2>/dev/null || true") == ""


def test_the_host_is_not_to_be_seen(daemon: Daemon) -> None:
    """No process but its own, no path of the daemon's."""
    assert int(daemon.shell("ls /proc | grep -c '^[0-9][0-9]*$'")) <= 4
    assert str(daemon.root) not in daemon.shell("cat /proc/1/environ | tr '\\0' '\\n'")
