"""The order of init's steps, which security depends on."""

from engine.birth import init
from engine.sandbox import mounts
from engine.sandbox.spec import Mount


def place(name: str) -> int:
    return [step.__name__ for _, step in init.STEPS].index(name)


def test_descriptors_are_closed_before_anything_is_built_and_the_command_is_last() -> None:
    assert place("seclude") == 0
    assert init.STEPS[-1][1].__name__ == "execute"


def test_nothing_of_the_image_is_mounted_on_before_mounts_are_private() -> None:
    assert place("unshare") < place("root") < place("mount") < place("devices") < place("protect") < place("pivot")


def test_loopback_is_up_before_the_daemon_is_told_of_the_namespaces() -> None:
    """It serves names at 127.0.0.11 in there as soon as it knows, which fails on a loopback that is down."""
    assert place("unshare") < place("network") < place("tell")


def test_cgroups_are_entered_before_their_namespace_shows_them_and_before_the_command() -> None:
    assert place("cgroup") < place("mount_late") < place("pivot") < place("execute")


def test_privileges_are_the_last_to_go_and_what_the_image_has_brought_runs_without_them() -> None:
    names = [step.__name__ for _, step in init.STEPS]
    assert names[-5:] == ["enter_users", "directory_inside", "privileges", "last_hooks", "execute"]
    assert place("limits") < place("label_inside") < place("enter_users")


def test_every_step_has_a_name_for_a_client_to_read() -> None:
    assert all(name.isalpha() for name, _ in init.STEPS)


def test_only_what_lies_near_the_view_of_the_cgroups_waits_for_them() -> None:
    def mount(target: str, kind: str = "tmpfs") -> Mount:
        return Mount(kind, "x", target)

    before, view, inside, beside = (
        mount("/sys"),
        mount("/sys/fs/cgroup", "cgroup"),
        mount("/sys/x"),
        mount("/etc/hosts"),
    )
    assert mounts.late((before, view, inside, beside)) == (view, inside)
    assert mounts.late((before, beside)) == ()
