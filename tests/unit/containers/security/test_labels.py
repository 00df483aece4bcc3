"""The SELinux labels of containers, on a made-up host whose kernel has SELinux and whose policy names its types."""

from pathlib import Path

import pytest

from engine.daemon.containers.record import Container
from engine.daemon.containers.security import labels, specify, walls
from engine.daemon.store import containers as table
from engine.daemon.store.database import Database
from engine.errors import Invalid, SystemFailure
from engine.sandbox import mounts, selinux
from engine.sandbox.spec import Mount
from tests.harness.parts import Parts, container, settings

PROCESS = "system_u:system_r:spc_t:s0"
FILE = "system_u:object_r:spc_file_t:s0"


class Roster(list[Container]):
    """Containers, as an engine has them."""

    def all(self) -> list[Container]:
        """All of them."""
        return list(self)

    def find(self, _name: str) -> Container:
        """The first one."""
        return self[0]


class Made:
    """A host with SELinux; what is labelled is in `given`, in order."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[str, str]] = []
        monkeypatch.setattr(labels, "ENFORCE", str(root / "enforce"))
        monkeypatch.setattr(labels, "CONFIG", str(root / "config"))
        monkeypatch.setattr(selinux, "relabel", lambda path, label: self.given.append((path, label)))
        (root / "enforce").write_text("1")
        (root / "config").write_text("# how\nSELINUX=enforcing\nSELINUXTYPE=mine\n")
        (root / "mine/contexts").mkdir(parents=True)
        (root / "mine/contexts/lxc_contexts").write_text(f'process = "{PROCESS}"\nfile = "{FILE}"\n')
        self.engine = Parts(settings=settings(selinux_enabled=True), containers=Roster())

    def labelled(self, *asked: str) -> tuple[str, str]:
        """The labels of one more container."""
        process, file = labels.made(self.engine, asked)
        self.engine.containers.append(container(process_label=process, file_label=file))
        return process, file


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(tmp_path, monkeypatch)


def test_containers_are_kept_apart_by_their_categories(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second container draws the first one's numbers, then one number twice, and then numbers of its own."""
    drawn = iter([b"\5\0\2\4", b"\2\0\5\4", b"\7\0\7\0", b"\7\0\xff\3"])
    monkeypatch.setattr(labels.os, "urandom", lambda _size: next(drawn))
    assert made.labelled() == (f"{PROCESS}:c2,c5", f"{FILE}:c2,c5")
    assert made.labelled() == (f"{PROCESS}:c7,c1023", f"{FILE}:c7,c1023")


def test_without_the_option_or_without_the_kernels_part_there_are_none(made: Made, tmp_path: Path) -> None:
    made.engine.settings = settings(selinux_enabled=False)
    assert made.labelled("type:spc_t") == ("", "")
    made.engine.settings = settings(selinux_enabled=True)
    assert made.labelled()[0]
    (tmp_path / "enforce").unlink()
    assert made.labelled() == ("", "")


def test_a_host_without_the_file_of_the_policy_has_the_usual_types(made: Made, tmp_path: Path) -> None:
    (tmp_path / "config").unlink()
    process, file = made.labelled()
    assert process.startswith("system_u:system_r:container_t:s0:c")
    assert file.startswith("system_u:object_r:container_file_t:s0:c")


@pytest.mark.parametrize(
    ("asked", "process", "file"),
    [
        (["level:s0:c1,c2"], f"{PROCESS}:c1,c2", f"{FILE}:c1,c2"),
        (["type:svirt_t", "level:s1"], "system_u:system_r:svirt_t:s1", "system_u:object_r:spc_file_t:s1"),
        (["user:u", "role:r", "level:s0"], "u:r:spc_t:s0", "u:object_r:spc_file_t:s0"),
        (["filetype:svirt_file_t", "level:s0"], PROCESS, "system_u:object_r:svirt_file_t:s0"),
        (["disable"], "", f"{FILE}:c1022,c1023"),
    ],
)
def test_options_of_a_label_are_dockers(made: Made, asked: list[str], process: str, file: str) -> None:
    assert made.labelled(*asked) == (process, file)


@pytest.mark.parametrize("asked", ["enable", "kind:x", "type", ""])
def test_an_option_that_docker_does_not_know_is_refused(made: Made, asked: str) -> None:
    with pytest.raises(Invalid, match="Bad label option"):
        made.labelled(asked)


def test_security_opt_names_labels_in_both_ways() -> None:
    assert walls.security(["label=type:a_t", "label:disable", "disable"]).labels == ("type:a_t", "disable", "disable")


def test_who_shares_a_namespace_has_the_other_containers_label(made: Made) -> None:
    one = container(process_label=f"{PROCESS}:c1,c2")
    assert labels.asked_by(one) == [
        "label=user:system_u",
        "label=role:system_r",
        "label=type:spc_t",
        "label=level:s0:c1,c2",
    ]
    asked = [option.removeprefix("label=") for option in labels.asked_by(one)]
    assert made.labelled(*asked) == (f"{PROCESS}:c1,c2", f"{FILE}:c1,c2")
    assert labels.asked_by(container()) == []


def test_the_mounts_of_a_run_have_its_label_but_not_a_volumes(made: Made) -> None:
    one = container(file_label=f"{FILE}:c1,c2")
    volume = Mount("tmpfs", "tmpfs", "/v", data="size=1m", place="/volumes/v")
    bind = Mount("bind", "/host", "/b")
    shown = labels.mounted(one, (*mounts.DEFAULT_MOUNTS, volume, bind, Mount("tmpfs", "tmpfs", "/t")))
    context = f'context="{FILE}:c1,c2"'
    assert {mount.target: mount.data for mount in shown if "context" in mount.data} == {
        "/dev": f"mode=755,size=65536k,{context}",
        "/dev/pts": f"newinstance,ptmxmode=0666,mode=0620,gid=5,{context}",
        "/dev/shm": f"mode=1777,size=67108864,{context}",
        "/t": context,
    }
    assert labels.mounted(container(), mounts.DEFAULT_MOUNTS) == mounts.DEFAULT_MOUNTS


def point(source: Path | str, mode: str) -> dict[str, object]:
    """A mount point of this source and mode."""
    return {"Type": "bind", "Source": str(source), "Destination": "/x", "Mode": mode}


def test_z_labels_the_source_for_all_and_capital_z_for_one(made: Made, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one = container(
        file_label=f"{FILE}:c1,c2",
        mounts=(point("/a", "ro,z"), point("/b", "Z"), point("/c", ""), point(tmp_path / "link", "Z,ro")),
    )
    labels.give(one, ["/home/hosts"], shared=False)
    assert made.given == [
        ("/home/hosts", f"{FILE}:c1,c2"),
        ("/a", FILE),
        ("/b", f"{FILE}:c1,c2"),
        (str(tmp_path), f"{FILE}:c1,c2"),
    ]


def test_files_that_two_containers_have_are_labelled_for_all(made: Made) -> None:
    labels.give(container(file_label=f"{FILE}:c1,c2"), ["/home/hosts"], shared=True)
    assert made.given == [("/home/hosts", FILE)]


def test_nothing_is_labelled_for_a_container_without_labels(made: Made) -> None:
    labels.give(container(mounts=(point("/a", "z"),)), ["/home/hosts"], shared=False)
    assert made.given == []


@pytest.mark.parametrize("source", ["/", "/usr", "/etc/", "//usr/../usr"])
def test_the_hosts_own_directories_are_never_labelled(made: Made, source: str) -> None:
    one = container(file_label=FILE, mounts=(point(source, "z"),))
    with pytest.raises(SystemFailure, match="SELinux relabeling of"):
        labels.give(one, [], shared=False)
    assert made.given == []


@pytest.mark.parametrize("options", [{"Privileged": True}, {"IpcMode": "host"}, {"PidMode": "host"}])
def test_what_is_not_kept_apart_has_no_label_of_a_process(made: Made, options: dict[str, object]) -> None:
    assert adapted(made, options) == ["label=disable"]


def adapted(made: Made, options: dict[str, object]) -> list[str] | None:
    """The SecurityOpt of a container with these options."""
    wanted = container(host_config=options).host_config
    made.engine.cgroups = Version2()
    walls.adapt(made.engine, options, wanted)
    return wanted["SecurityOpt"]


class Version2:
    """The cgroups of a host, as far as they are asked for here."""

    version = "2"


def test_who_joins_a_namespace_is_labelled_alike_unless_it_asks_for_something_else(made: Made) -> None:
    made.labelled("level:s0:c3,c4")
    joined = adapted(made, {"IpcMode": f"container:{'c' * 64}", "PidMode": f"container:{'c' * 64}"})
    assert joined is not None
    assert joined[-1] == "label=level:s0:c3,c4"
    assert len(joined) == 4
    asked = {"IpcMode": f"container:{'c' * 64}", "SecurityOpt": ["label=type:svirt_t"]}
    assert adapted(made, asked) == ["label=type:svirt_t"]


def test_a_host_that_was_booted_without_it_runs_labelled_containers_all_the_same(made: Made, tmp_path: Path) -> None:
    one = container(process_label=f"{PROCESS}:c1,c2", file_label=f"{FILE}:c1,c2")
    assert specify._labels_of(one) == (f"{PROCESS}:c1,c2", f"{FILE}:c1,c2")
    assert specify._labels_of(container()) == ("", "")
    (tmp_path / "enforce").unlink()
    assert specify._labels_of(one) == ("", "")


def test_labels_are_kept_for_the_next_daemon_and_in_no_place_that_an_older_one_reads(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "db"), table.SCHEMA)
    one = container(process_label=f"{PROCESS}:c1,c2", file_label=f"{FILE}:c1,c2")
    other = container(id="d" * 64, name="other", created_ns=2)
    with database.transaction() as connection:
        for each in (one, other):
            table.insert(connection, each, None)
    with database.reading() as connection:
        found = [(each.process_label, each.file_label) for each in table.load_all(connection)]
        assert found == [(one.process_label, one.file_label), ("", "")]
        assert not [row for row in connection.execute("SELECT settings FROM containers") if "label" in row[0]]
    with database.transaction() as connection:
        table.delete(connection, one)
        assert connection.execute("SELECT * FROM container_labels").fetchall() == []
