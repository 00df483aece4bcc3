"""GET /containers/{id}/changes: what dockerd would list, case by case.

The table was taken from dockerd (overlay2, 20.10) with the same image and the same scripts; only the order within a
directory is our own.
"""

from collections.abc import Callable

import pytest

from tests.harness.daemon import Daemon

pytestmark = pytest.mark.root

MODIFIED, ADDED, DELETED = range(3)
TABLE = {
    "nothing": ("true", []),
    "a file is read": ("cat /etc/passwd", []),
    "a new file": ("echo > /tmp/x", [("/tmp", MODIFIED), ("/tmp/x", ADDED)]),
    "a new file at the top": ("echo > /x", [("/x", ADDED)]),
    "a new directory and what is in it": (
        "mkdir -p /a/b && echo > /a/b/c",
        [("/a", ADDED), ("/a/b", ADDED), ("/a/b/c", ADDED)],
    ),
    "a file is written": ("echo >> /etc/passwd", [("/etc", MODIFIED), ("/etc/passwd", MODIFIED)]),
    "a file is touched": ("touch /etc/passwd", [("/etc", MODIFIED), ("/etc/passwd", MODIFIED)]),
    "a file is given another mode": ("chmod 600 /etc/group", [("/etc", MODIFIED), ("/etc/group", MODIFIED)]),
    "a file is given away": ("chown 1:1 /etc/group", [("/etc", MODIFIED), ("/etc/group", MODIFIED)]),
    "a directory is given another mode": ("chmod 700 /home", [("/home", MODIFIED)]),
    "a directory is touched": ("touch /home", []),
    "a file is deleted": ("rm /etc/shadow", [("/etc", MODIFIED), ("/etc/shadow", DELETED)]),
    "a directory is deleted": ("rm -r /var/www", [("/var", MODIFIED), ("/var/www", DELETED)]),
    "a tree is deleted": ("rm -r /var", [("/var", DELETED)]),
    "made and deleted": ("echo > /tmp/x && rm /tmp/x", []),
    "deleted and made again": (
        "rm /etc/group && echo new > /etc/group",
        [("/etc", MODIFIED), ("/etc/group", MODIFIED)],
    ),
    "a directory is deleted and made again, empty": (
        "rm -r /var && mkdir /var",
        [("/var", MODIFIED), ("/var/spool", DELETED), ("/var/www", DELETED)],
    ),
    "a directory is deleted and made again, with some of it": (
        "rm -r /var && mkdir -p /var/spool && echo > /var/new",
        [
            ("/var", MODIFIED),
            ("/var/new", ADDED),
            ("/var/spool", MODIFIED),
            ("/var/spool/mail", DELETED),
            ("/var/www", DELETED),
        ],
    ),
    "a file in the place of a directory": ("rm -r /var && echo > /var", [("/var", MODIFIED)]),
    "a directory in the place of a file": (
        "rm /etc/group && mkdir /etc/group && echo > /etc/group/x",
        [("/etc", MODIFIED), ("/etc/group", MODIFIED), ("/etc/group/x", ADDED)],
    ),
    "a symbolic link in the place of a file": (
        "ln -sf /x /etc/group",
        [("/etc", MODIFIED), ("/etc/group", MODIFIED)],
    ),
    "renamed": (
        "mv /etc/group /etc/gruppe",
        [("/etc", MODIFIED), ("/etc/group", DELETED), ("/etc/gruppe", ADDED)],
    ),
    "a directory renamed": (
        "mv /var/www /var/web",
        [("/var", MODIFIED), ("/var/web", ADDED), ("/var/www", DELETED)],
    ),
    "a hard link": ("ln /etc/group /etc/also", [("/etc", MODIFIED), ("/etc/also", ADDED)]),
    "a device and a fifo": (
        "mknod /tmp/d c 1 3; mkfifo /tmp/p",
        [("/tmp", MODIFIED), ("/tmp/d", ADDED), ("/tmp/p", ADDED)],
    ),
    "in what is mounted": ("echo > /dev/shm/x; echo > /dev/x; echo 1 >> /etc/hosts", []),
    "the places of the engine's mounts": ("readlink /etc/mtab && test -f /.dockerenv && echo >> /etc/hostname", []),
    "those places in another form": (
        "echo x > /.dockerenv && ln -sf /x /etc/mtab",
        [("/.dockerenv", MODIFIED), ("/etc", MODIFIED), ("/etc/mtab", MODIFIED)],
    ),
    "those places removed": (
        "rm /.dockerenv /etc/mtab",
        [("/.dockerenv", DELETED), ("/etc", MODIFIED), ("/etc/mtab", DELETED)],
    ),
    "in a tmpfs": ("echo > /mounted/x", [("/mounted", ADDED)]),
}


def listed(daemon: Daemon, container: str) -> list[tuple[str, int]]:
    answer = daemon.request("GET", f"/containers/{container}/changes")
    assert answer.status == 200, answer
    return [(change["Path"], change["Kind"]) for change in answer.json() or ()]


@pytest.mark.parametrize("case", TABLE)
def test_changes_are_listed_as_dockerd_lists_them(daemon: Daemon, container: Callable[..., str], case: str) -> None:
    script, wanted = TABLE[case]
    more = {"HostConfig": {"NetworkMode": "none", "Tmpfs": {"/mounted": ""}}} if "/mounted" in script else {}
    identifier = container("sh", "-c", script, **more)
    assert listed(daemon, identifier) == []
    daemon.begin(identifier)
    assert daemon.wait(identifier) == 0, daemon.logs(identifier)
    assert listed(daemon, identifier) == wanted


def test_nothing_changed_is_null(daemon: Daemon, container: Callable[..., str]) -> None:
    """A recorded dockerd answers so (transcript 150)."""
    assert daemon.request("GET", f"/containers/{container('true')}/changes").body == b"null\n"


def test_a_running_container_is_compared_too(daemon: Daemon, container: Callable[..., str]) -> None:
    identifier = container("sh", "-c", "echo > /x; echo ready; sleep 1000")
    daemon.begin(identifier)
    with daemon.connection() as logs:
        logs.open_stream("GET", f"/containers/{identifier}/logs?stdout=1&follow=1")
        next(logs.chunks())
    assert listed(daemon, identifier) == [("/x", ADDED)]


def test_a_layer_above_another_is_compared_with_both(daemon: Daemon, container: Callable[..., str]) -> None:
    first = container("sh", "-c", "rm -r /var && mkdir /var && echo > /var/new && rm /etc/shadow")
    daemon.begin(first)
    assert daemon.wait(first) == 0
    assert daemon.request("POST", f"/commit?container={first}&repo=changed").status == 201
    second = container("sh", "-c", "mkdir /var/www && rm /var/new && echo > /etc/shadow", Image="changed")
    try:
        daemon.begin(second)
        assert daemon.wait(second) == 0
        assert listed(daemon, second) == [
            ("/etc", MODIFIED),
            ("/etc/shadow", ADDED),
            ("/var", MODIFIED),
            ("/var/new", DELETED),
            ("/var/www", ADDED),
        ]
    finally:
        daemon.remove(second)
        daemon.request("DELETE", "/images/changed")
