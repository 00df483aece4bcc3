"""Modules of the kernel, from a made-up tree and with a made-up finit_module(2)."""

import errno
import os
from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.kernel import modprobe, syscalls

DEP = """kernel/net/bridge/bridge.ko: kernel/net/802/stp.ko kernel/net/llc/llc.ko
kernel/net/bridge/br_netfilter.ko: kernel/net/bridge/bridge.ko kernel/net/802/stp.ko kernel/net/llc/llc.ko
kernel/net/802/stp.ko: kernel/net/llc/llc.ko
kernel/crypto/crypto-engine.ko.xz:
"""


class Tree:
    """A host's modules; `loaded` are the files that the kernel was given, with the flags."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = root / "modules" / os.uname().release
        self.rules = root / "modprobe.d"
        self.loaded: list[tuple[str, int]] = []
        self.refusal = 0
        monkeypatch.setattr(modprobe, "_TREES", (str(root / "modules"),))
        monkeypatch.setattr(modprobe, "_FORBIDDING", (str(self.rules),))
        monkeypatch.setattr(syscalls, "finit_module", self.finit)
        self.program = root / "program"
        monkeypatch.setattr(modprobe, "_PROGRAM", str(self.program))

    def make(self) -> None:
        """Put the files there."""
        for line in DEP.splitlines():
            for name in line.replace(":", "").split():
                (self.place / name).parent.mkdir(parents=True, exist_ok=True)
                (self.place / name).touch()
        (self.place / "modules.dep").write_text(DEP)
        self.rules.mkdir()

    def finit(self, fd: int, flags: int) -> None:
        """The system call."""
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        self.loaded.append((os.path.basename(os.readlink(f"/proc/self/fd/{fd}")), flags))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """The tree, made."""
    made = Tree(tmp_path, monkeypatch)
    made.make()
    return made


def test_what_a_module_needs_is_loaded_first(tree: Tree) -> None:
    modprobe.load("br_netfilter")
    assert tree.loaded == [("llc.ko", 0), ("stp.ko", 0), ("bridge.ko", 0), ("br_netfilter.ko", 0)]


def test_the_kernel_unpacks_what_is_compressed(tree: Tree) -> None:
    modprobe.load("crypto_engine")
    assert tree.loaded == [("crypto-engine.ko.xz", syscalls.MODULE_INIT_COMPRESSED_FILE)]


def test_what_is_loaded_already_is_fine(tree: Tree) -> None:
    tree.refusal = errno.EEXIST
    modprobe.load("br_netfilter")


@pytest.mark.parametrize(
    "rule", ["blacklist br_netfilter", "install br-netfilter /bin/false", "  blacklist br_netfilter x"]
)
def test_what_an_administrator_forbids_is_not_loaded(tree: Tree, rule: str) -> None:
    (tree.rules / "mine.conf").write_text(f"# no bridges\n{rule}\n")
    with pytest.raises(Unavailable, match=r"mine\.conf forbids it"):
        modprobe.load("br_netfilter")
    assert tree.loaded == []


@pytest.mark.parametrize("name", ["nothing", "br_netfilter.ko"])
def test_a_module_that_is_not_there_is_said(tree: Tree, name: str) -> None:
    with pytest.raises(Unavailable, match="this kernel has no such module"):
        modprobe.load(name)


def test_a_refusal_of_the_kernel_is_said(tree: Tree) -> None:
    tree.refusal = errno.EPERM
    with pytest.raises(Unavailable, match=r"br_netfilter cannot be loaded: .*llc\.ko: operation not permitted"):
        modprobe.load("br_netfilter")


def test_a_host_without_modules_is_said(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modprobe, "_TREES", ("/no/such",))
    with pytest.raises(Unavailable, match="br_netfilter cannot be loaded"):
        modprobe.load("br_netfilter")


def test_where_the_kernel_can_ask_for_them_nothing_is_loaded(tree: Tree) -> None:
    tree.program.write_text("/bin/true\n")
    modprobe.stand_in(("stp",))
    assert tree.loaded == []


@pytest.mark.parametrize("program", ["/no/such/program", ""])
def test_where_its_program_is_not_there_the_engine_loads_what_it_can(tree: Tree, program: str) -> None:
    tree.program.write_text(f"{program}\n")
    modprobe.stand_in(("nothing", "stp"))
    assert tree.loaded == [("llc.ko", 0), ("stp.ko", 0)]


def test_a_kernel_without_modules_is_left_alone(tree: Tree) -> None:
    modprobe.stand_in(("stp",))
    assert tree.loaded == []
