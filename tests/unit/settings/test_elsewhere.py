"""Options about parts that this engine does not have: taken with a line, or refused in words."""

import pytest

from engine.errors import Invalid
from engine.settings import elsewhere, every


def made(*arguments):
    return every.from_arguments(["--config-file", "/dev/null", *arguments], {}, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--containerd=/c"],
        ["--containerd-namespace=n"],
        ["--containerd-plugins-namespace=n"],
        ["--swarm-default-advertise-addr=eth0"],
        ["--network-control-plane-mtu=1400"],
        ["--userland-proxy-path=/usr/bin/docker-proxy"],
        ["--rootless"],
        ["-r"],
        ["--raw-logs"],
        ["--firewall-backend=nftables"],
        ["--storage-opt=overlay2.override_kernel_check=true"],
    ],
    ids=" ".join,
)
def test_what_changes_nothing_is_taken_with_one_line(arguments):
    (note,) = made(*arguments).notes
    assert note.partition(" has no effect: ")[2]


def test_each_option_of_which_the_table_says_nothing_has_its_line():
    """As engine/README.md says of them all."""
    silent = [each.option.name for each in elsewhere._WITHOUT if bool(each.note) is each.option.help.startswith("Refu")]
    assert silent == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cri-containerd"],
        ["--network-diagnostic-port=1"],
        ["--nri-opts=enable,plugin-path=/p"],
    ],
    ids=" ".join,
)
def test_what_would_change_something_is_refused_in_words(arguments):
    with pytest.raises(Invalid, match=rf"^{arguments[0].partition('=')[0]}: \w+"):
        made(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [["--cri-containerd=false"], ["--nri-opts=enable=false"], ["--network-diagnostic-port=0"]],
    ids=" ".join,
)
def test_what_is_off_anyway_may_be_switched_off(arguments):
    assert made(*arguments).notes == ()


def test_nri_is_read_from_the_file_too(tmp_path):
    path = tmp_path / "daemon.json"
    path.write_text('{"nri-opts": {"enable": true}}')
    with pytest.raises(Invalid, match="Node Resource Interface"):
        every.from_arguments(["--config-file", str(path)], {}, 0)
    with pytest.raises(Invalid, match="unexpected key 'x' in 'x=1'"):
        made("--nri-opts", "x=1")


def test_each_says_in_its_help_what_becomes_of_it():
    assert all(each.help.startswith(("Nothing", "Refused")) for each in elsewhere.OPTIONS)
