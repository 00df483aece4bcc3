"""What containers get that do not say otherwise: forms that are brought to one, and those that are refused."""

import pytest

from engine.errors import Invalid
from engine.settings import every


def made(*arguments):
    return every.from_arguments(["--config-file", "/dev/null", *arguments], {}, 0)


def test_the_defaults_are_dockerds():
    chosen = made()
    assert (chosen.default_ipc_mode, chosen.default_cgroupns_mode) == ("private", "private")
    assert (chosen.default_shm_size, chosen.default_stop_timeout) == (64 << 20, 10)
    assert (chosen.no_new_privileges, chosen.seccomp_profile) == (False, "builtin")


@pytest.mark.parametrize(("text", "size"), [("1g", 1 << 30), ("65536", 65536), ("64KiB", 65536), ("0", 64 << 20)])
def test_a_size_is_bytes(text, size):
    assert made("--default-shm-size", text).default_shm_size == size


def test_an_empty_directory_or_the_feature_switches_cdi_off():
    assert made().cdi_spec_dirs == ("/etc/cdi", "/var/run/cdi")
    assert made("--cdi-spec-dir=").cdi_spec_dirs == made("--feature", "cdi=false").cdi_spec_dirs == ()
    assert made("--cdi-spec-dir=/a", "--cdi-spec-dir=/b").cdi_spec_dirs == ("/a", "/b")


def test_an_empty_profile_is_the_engines_own():
    assert made("--seccomp-profile=").seccomp_profile == "builtin"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--default-ipc-mode", "host"], 'IPC mode "host" is not supported as default value; use "shareable" or'),
        (["--default-ipc-mode", "x"], 'default IPC mode setting (x) is invalid; use "shareable" or "private"'),
        (["--default-cgroupns-mode", "x"], 'invalid default cgroup namespace (x): use "host" or "private"'),
        (["--default-shm-size", "x"], "invalid size: 'x'"),
        (["--default-stop-timeout", "-1"], "invalid default stop timeout: -1"),
        (["--default-stop-timeout", "x"], 'strconv.ParseInt: parsing "x": invalid syntax'),
    ],
)
def test_what_dockerd_refuses_is_refused_in_its_words(arguments, text):
    with pytest.raises(Invalid) as caught:
        made(*arguments)
    assert text in str(caught.value)
