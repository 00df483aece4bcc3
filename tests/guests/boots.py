"""Which guests are booted, and which checks are made in each."""

from dataclasses import dataclass

SERVICE = "check_service"
APPARMOR = "check_apparmor"
KERNEL = "check_kernel"
SMALL = "check_small"
LIMITS = (
    "check_limits.check_the_version_is_what_is_mounted",
    "check_limits.check_no_limit_fails_a_start",
    "check_limits.check_an_update_warns_too",
    "check_limits.check_the_figures_and_the_freezer_work",
)
VERSION_1 = "systemd.unified_cgroup_hierarchy=0"


@dataclass(frozen=True)
class Boot:
    """A guest, which may be booted several times on one disk.

    sittings: the checks of each boot; memory: in MB; kernel: arguments for it; short: it is part of every run of the
        tests
    """

    name: str
    sittings: tuple[tuple[str, ...], ...]
    memory: int = 1024
    kernel: tuple[str, ...] = ()
    short: bool = False

    @property
    def checks(self) -> list[str]:
        """All of them, in order."""
        return [check for sitting in self.sittings for check in sitting]


BOOTS = (
    Boot(
        "systemd",
        (
            (
                f"{SERVICE}.check_units_start_the_engine_by_its_socket",
                f"{SERVICE}.check_limits_are_those_of_the_kernel",
                f"{SERVICE}.check_too_much_memory_is_told",
                f"{SERVICE}.check_devices_are_guarded",
                f"{SERVICE}.check_a_paused_container_stands_still",
                f"{SERVICE}.check_an_exec_follows_process_1_into_its_cgroup",
                f"{SERVICE}.check_the_figures_of_a_container",
                f"{APPARMOR}.check_a_container_runs_under_the_engines_profile",
                f"{APPARMOR}.check_a_mount_is_denied_by_the_profile_alone",
                f"{APPARMOR}.check_verbs_reach_a_confined_container",
                f"{APPARMOR}.check_dockers_name_is_taken_and_an_unknown_one_refused",
                f"{KERNEL}.check_a_network_without_icc_loads_br_netfilter",
                f"{SERVICE}.check_a_restart_keeps_the_socket_and_the_containers",
                f"{SERVICE}.check_what_runs_when_the_host_goes_down",
            ),
            (f"{SERVICE}.check_what_the_host_that_went_down_has_left",),
        ),
        short=True,
    ),
    # Debian's kernel, its systemd and the checks' own Python take 100 MB of it. With less, the ten containers (55 MB)
    # leave too little for the files of running programs, which are then read again and again.
    Boot("small", ((f"{SMALL}.check_the_demo_works", f"{SMALL}.check_ten_containers_in_pure_python"),), memory=208),
    Boot("no memory controller", (LIMITS,), kernel=("cgroup_disable=memory",)),
    Boot("hybrid", (LIMITS,), kernel=(VERSION_1,)),
    Boot("version 1", (LIMITS,), kernel=(VERSION_1, "systemd.legacy_systemd_cgroup_controller=1")),
)
