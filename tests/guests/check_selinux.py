"""Containers with SELinux labels, on a kernel that runs Debian's policy: it enforces nothing, but knows each label."""

import os
from pathlib import Path

from engine.client.api import ApiError
from tests.guests.inside import Host, read

# Debian's policy names a type for containers that it does not have; these it has.
CONTEXTS = "/etc/selinux/default/contexts/lxc_contexts"
PROCESS, FILE = "system_u:system_r:svirt_t:s0", "system_u:object_r:svirt_image_t:s0"


def label(path: str) -> str:
    """The label of a file."""
    return os.getxattr(path, "security.selinux", follow_symlinks=False).rstrip(b"\0").decode()


def check_a_container_and_its_files_have_their_labels(host: Host) -> None:
    """Its process, an exec, its root, its own mounts, its files of /etc, as inspect shows them."""
    Path(CONTEXTS).write_text(f'process = "{PROCESS}"\nfile = "{FILE}"\n')
    with host.daemon("--selinux-enabled"):
        assert "name=selinux" in host.ask("GET", "/info")["SecurityOptions"]
        one = host.begin("sleep", "10000")
        other = host.begin("sleep", "10000")
        shown = host.inspect(one)
        process, files, pid = shown["ProcessLabel"], shown["MountLabel"], shown["State"]["Pid"]
        assert process.startswith(f"{PROCESS}:c"), process
        assert files.startswith(f"{FILE}:c"), files
        categories, others = process.rpartition(":")[2], host.inspect(other)["ProcessLabel"].rpartition(":")[2]
        assert categories == files.rpartition(":")[2] != others
        assert read(f"/proc/{pid}/attr/current").rstrip("\0") == process
        said = host.execute(one, "cat", "/proc/self/attr/current")
        assert said[1].strip("\0\r\n") == process, said
        inside = ("/", "/bin/busybox", "/dev", "/dev/null", "/dev/pts", "/dev/shm", "/dev/mqueue", "/etc/hosts")
        found = {path: label(f"/proc/{pid}/root{path}") for path in inside}
        assert found == dict.fromkeys(inside, files), (found, files)
        host.remove(one, other)


def check_z_labels_a_directory_for_all_and_capital_z_for_one(host: Host) -> None:
    """The host's own directories are refused."""
    with host.daemon("--selinux-enabled"):
        for name in ("/srv/all", "/srv/one", "/srv/none"):
            Path(name, "below").mkdir(parents=True)
        before = label("/srv/none/below")
        binds = {"Binds": ["/srv/all:/a:z", "/srv/one:/b:ro,Z", "/srv/none:/c"]}
        one = host.begin("sleep", "10000", HostConfig=binds)
        files = host.inspect(one)["MountLabel"]
        assert label("/srv/one/below") == label("/srv/one") == files
        assert label("/srv/all/below") == FILE
        assert label("/srv/none/below") == before
        made = host.ask(
            "POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], "HostConfig": {"Binds": ["/usr:/u:z"]}}
        )
        refused(host, made["Id"], "SELinux relabeling of /usr is not allowed")
        host.remove(one, made["Id"])


def check_options_of_labels_are_taken(host: Host) -> None:
    """Another type, none at all, a privileged container, and a type that the policy does not know."""
    with host.daemon("--selinux-enabled"):
        asked = {"SecurityOpt": ["label=type:svirt_prot_exec_t", "label=level:s0:c1,c2"]}
        one = host.begin("sleep", "10000", HostConfig=asked)
        current = f"/proc/{host.inspect(one)['State']['Pid']}/attr/current"
        assert read(current).rstrip("\0") == "system_u:system_r:svirt_prot_exec_t:s0:c1,c2"
        free = [{"SecurityOpt": ["label=disable"]}, {"Privileged": True}]
        others = [host.begin("sleep", "10000", HostConfig=config) for config in free]
        own = read("/proc/self/attr/current").rstrip("\0")
        for other in others:
            shown = host.inspect(other)
            assert shown["ProcessLabel"] == ""
            assert read(f"/proc/{shown['State']['Pid']}/attr/current").rstrip("\0").split(":")[2] == own.split(":")[2]
        body = {"Image": "busybox", "Cmd": ["true"], "HostConfig": {"SecurityOpt": ["label=type:no_such_t"]}}
        made = host.ask("POST", "/containers/create", body)
        refused(host, made["Id"], "Invalid argument")
        host.remove(one, *others, made["Id"])


def refused(host: Host, one: str, words: str) -> None:
    """Its start fails with these words."""
    try:
        host.ask("POST", f"/containers/{one}/start")
    except ApiError as error:
        assert words.lower() in str(error).lower(), error
    else:
        raise AssertionError("it was started")
