"""SELinux labels: what is written for a process, which options a mount gets, and which files of a tree are labelled."""

import errno
import os
from pathlib import Path

import pytest

from engine.errors import SystemFailure
from engine.kernel import syscalls
from engine.sandbox import lsm, mounts, selinux
from engine.sandbox.spec import Root

LABEL = "system_u:object_r:container_file_t:s0:c1,c2"


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What a process does to itself, in order, on a kernel with SELinux."""
    calls: list[object] = []
    monkeypatch.setattr(lsm, "write", lambda names, text, outside: calls.append((*names, text)) or True)
    monkeypatch.setattr(syscalls, "join_session_keyring", lambda: calls.append("keyring"))
    return calls


def test_a_process_gets_a_keyring_and_then_its_own_label_at_execve(done: list[object]) -> None:
    selinux.change_on_exec(LABEL)
    assert done == [("keycreate", LABEL), "keyring", ("exec", LABEL)]


def test_a_kernel_without_keyrings_gives_the_label_all_the_same(
    done: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(errno.ENOSYS, "")

    monkeypatch.setattr(syscalls, "join_session_keyring", refuse)
    selinux.change_on_exec(LABEL)
    assert done[-1] == ("exec", LABEL)


def test_a_label_that_the_policy_does_not_know_fails_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_names: tuple[str, ...], _text: str, *, outside: bool) -> bool:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(lsm, "write", refuse)
    with pytest.raises(SystemFailure, match=f"SELinux refuses the label {LABEL} of a process: invalid argument"):
        selinux.change_on_exec(LABEL)


def test_a_kernel_without_selinux_fails_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsm, "write", lambda *_names, outside: False)
    with pytest.raises(SystemFailure, match="this kernel has no SELinux"):
        selinux.change_on_exec(LABEL)


def test_the_root_of_a_container_has_its_label(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In quotes among other options, for the commas; alone it needs none."""
    said: list[str] = []
    monkeypatch.setattr(syscalls, "mount", lambda *arguments: said.append(arguments[-1]))
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "root"
    place.mkdir()
    os.close(mounts.mount_root(Root(str(tmp_path), ("1",), str(place), "/w", label=LABEL)))
    assert said == [f'lowerdir=1,upperdir={place},workdir=/w,context="{LABEL}"']


def test_the_root_of_many_layers_has_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: dict[str, str] = {}
    monkeypatch.setattr(syscalls, "fsopen", lambda _kind: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(syscalls, "fsmount", lambda *_: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(syscalls, "move_mount", lambda *_: None)
    monkeypatch.setattr(syscalls, "fsconfig", lambda _fd, _command, key="", value="": said.update({key: value}))
    monkeypatch.chdir(tmp_path)
    layers = tuple(str(number) * 64 for number in range(100))
    os.close(mounts.mount_root(Root(str(tmp_path), layers, str(tmp_path), "/w", label=LABEL)))
    assert said["context"] == LABEL


def labels(top: Path) -> dict[str, str]:
    """The labels of what is below a directory, by the path."""
    found = {}
    for path in (top, *top.rglob("*")):
        try:
            label = os.getxattr(path, "security.selinux", follow_symlinks=False)
        except OSError:
            continue
        found[str(path.relative_to(top))] = label.rstrip(b"\0").decode()
    return found


@pytest.mark.root
def test_a_tree_is_labelled_and_nothing_that_its_links_lead_to(tmp_path: Path) -> None:
    """Only root may write this attribute; a kernel without SELinux keeps it like any other."""
    outside, top = tmp_path / "outside", tmp_path / "top"
    (top / "a/b").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("")
    (top / "a/b/file").write_text("")
    (top / "link").symlink_to(outside)
    (top / "a/file").symlink_to(outside / "file")
    os.mkfifo(top / "a/queue")
    selinux.relabel(str(top), LABEL)
    assert labels(top) == dict.fromkeys([".", "a", "a/b", "a/b/file", "a/file", "a/queue", "link"], LABEL)
    assert labels(outside) == {}
    selinux.relabel(str(top / "a/b/file"), "u:r:t:s0")
    assert labels(top)["a/b/file"] == "u:r:t:s0"


@pytest.mark.root
def test_a_way_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    """A container may change it between the look at a mount's source and this."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for path in ("link", "link/../real"):
        with pytest.raises(OSError, match="symbolic links"):
            selinux.relabel(str(tmp_path / path), LABEL)
    assert labels(tmp_path / "real") == {}


@pytest.mark.root
def test_a_file_system_without_labels_is_left_alone() -> None:
    selinux.relabel(f"/proc/{os.getpid()}/status", LABEL)
