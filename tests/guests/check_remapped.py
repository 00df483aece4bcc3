"""Containers with a user namespace of their own under AppArmor: an exec has the container's profile."""

import subprocess

from tests.guests.daemon import Daemon

USER = "dockremap"  # the one of `--userns-remap=default`


def check_an_exec_in_a_remapped_container_has_its_profile() -> None:
    """The kernel mounts no /proc in there, where some of the container's own /proc is masked."""
    subprocess.run(["useradd", "--system", USER], check=True)
    for path in ("/etc/subuid", "/etc/subgid"):
        with open(path, "a") as ids:
            ids.write(f"{USER}:1000000:65536\n")
    with Daemon("--userns-remap=default") as daemon:
        for options, profile in (([], "engine-default (enforce)"), (["apparmor=unconfined"], "unconfined")):
            made = daemon.run(SecurityOpt=options)
            assert daemon.exec(made, "cat", "/proc/self/uid_map")[1].split()[1] == "1000000"
            assert daemon.exec(made, "cat", "/proc/self/attr/current") == (0, f"{profile}\r\n")
            daemon.remove(made)
