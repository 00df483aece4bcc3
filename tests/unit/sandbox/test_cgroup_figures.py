"""What cgroup files say, from texts of real hosts; and the reading of files that go away."""

import os

import pytest

from engine.sandbox.cgroups import counters
from engine.sandbox.cgroups.counters import MEMORY_V1, MEMORY_V2, UNLIMITED, Files, Gone, Reader, parse_v1, parse_v2
from engine.sandbox.cgroups.v1 import CgroupsV1
from engine.sandbox.cgroups.v2 import CgroupsV2
from tests.harness.descriptors import open_below

V1 = {
    "usage": b"154800196 215220601 \n",
    "times": b"user 27\nsystem 9\n",
    "throttling": b"nr_periods 31\nnr_throttled 2\nthrottled_time 1500\nnr_bursts 0\nburst_time 0\n",
    "memory": b"774144\n",
    "memory_max": b"4870144\n",
    "memory_limit": b"67108864\n",
    "memory_failures": b"3\n",
    "memory_stat": b"cache 4096\nrss 110592\nshmem 7\nswap 0\nhierarchical_memory_limit 67108864\ntotal_cache 4096\n",
    "pids": b"2\n",
    "pids_limit": b"64\n",
    "io_bytes": b"8:0 Read 4096\n8:0 Write 0\n8:0 Total 4096\n254:16 Read 1\nTotal 4097\n",
    "io_counts": b"Total 0\n",
}
V2 = {
    "cpu": b"usage_usec 370020\nuser_usec 270000\nsystem_usec 90000\nnr_periods 5\nnr_throttled 1\nthrottled_usec 77\n",
    "memory": b"774144\n",
    "memory_limit": b"max\n",
    "memory_stat": b"anon 110592\nfile 4096\nworkingset_refault_anon 3\nworkingset_refault_file 4\nzswpin 9\n",
    "memory_events": b"low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n",
    "pids": b"2\n",
    "pids_limit": b"max\n",
    "io": b"8:0 rbytes=4096 wbytes=12 rios=1 wios=2 dbytes=0 dios=0\n8:16 \n",
}


def test_version_1():
    found = parse_v1(V1)
    assert (found.cpu, found.cpus) == (370020797, [154800196, 215220601])
    assert (found.cpu_user, found.cpu_kernel) == (270_000_000, 90_000_000)
    assert (found.periods, found.throttled_periods, found.throttled) == (31, 2, 1500)
    assert (found.memory_used, found.memory_max, found.memory_limit, found.memory_failures) == (
        *(774144, 4870144),
        *(67108864, 3),
    )
    assert tuple(found.memory) == MEMORY_V1 and found.memory["rss"] == 110592 and "swap" not in found.memory
    assert (found.pids, found.pids_limit) == (2, 64)
    assert found.io_bytes == [(8, 0, "Read", 4096), (8, 0, "Write", 0), (8, 0, "Total", 4096), (254, 16, "Read", 1)]
    assert found.io_counts == []


def test_version_2():
    found = parse_v2(V2)
    assert (found.cpu, found.cpu_user, found.cpu_kernel, found.cpus) == (370_020_000, 270_000_000, 90_000_000, [])
    assert (found.periods, found.throttled_periods, found.throttled) == (5, 1, 77_000)
    assert (found.memory_used, found.memory_limit, found.memory_failures) == (774144, UNLIMITED, 2)
    assert tuple(found.memory) == MEMORY_V2 and found.memory["workingset_refault"] == 7
    assert (found.pids, found.pids_limit) == (2, UNLIMITED)
    assert found.io_bytes == [(8, 0, "read", 4096), (8, 0, "write", 12)]
    assert found.io_counts is None


def test_a_host_without_a_controller_says_nothing_of_it():
    nothing = parse_v1(dict.fromkeys(V1, b""))
    assert (nothing.cpu, nothing.memory, nothing.memory_limit, nothing.pids_limit) == (0, {}, 0, 0)
    assert parse_v2(dict.fromkeys(V2, b"")).io_bytes is None


def test_version_1_has_no_limit_to_tell_where_there_is_none():
    assert parse_v1({**V1, "pids_limit": b"max\n"}).pids_limit == 0


@pytest.mark.parametrize("keep", [True, False])
def test_the_files_of_version_1_are_found_in_their_hierarchies(tmp_path, keep):
    """Two controllers mounted together, one that is not there at all, and one file that this kernel does not have."""
    home = "engine/abc"
    for hierarchy in ("cpu,cpuacct", "memory", "pids"):
        (tmp_path / hierarchy / home).mkdir(parents=True)
    for name, text in (("cpuacct.usage_percpu", "5 6"), ("cpuacct.stat", "user 1\nsystem 0\n")):
        (tmp_path / "cpu,cpuacct" / home / name).write_text(text)
    (tmp_path / "memory" / home / "memory.usage_in_bytes").write_text("99\n")
    cgroups = CgroupsV1(
        str(tmp_path),
        {"cpu,cpuacct": frozenset({"cpu", "cpuacct"}), "memory": frozenset({"memory"}), "pids": frozenset({"pids"})},
    )
    reader = Reader(cgroups, "abc", keep=keep)
    for _ in range(2):
        found = reader.read()
        assert (found.cpu, found.memory_used, found.pids) == (11, 99, 0)
    assert open_below(tmp_path) == (3 if keep else 0)
    reader.close()
    assert open_below(tmp_path) == 0


def test_the_files_of_version_2_are_in_one_place(tmp_path):
    (tmp_path / "engine" / "abc").mkdir(parents=True)
    (tmp_path / "engine" / "abc" / "cpu.stat").write_text("usage_usec 5\n")
    reader = Reader(CgroupsV2(str(tmp_path), frozenset({"cpu"})), "abc", keep=False)
    assert reader.read().cpu == 5000


def test_a_cgroup_that_is_not_there_is_gone(tmp_path):
    reader = Reader(CgroupsV2(str(tmp_path), frozenset({"cpu"})), "abc", keep=True)
    with pytest.raises(Gone):
        reader.read()


def test_a_process_that_has_ended_is_gone():
    """While its file is open."""
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)
        os._exit(0)
    files = Files({"stat": f"/proc/{child}/stat"}, keep=True)
    assert files.read()["stat"].startswith(b"%d " % child)
    os.kill(child, 9)
    os.waitpid(child, 0)
    with pytest.raises(Gone):
        files.read()
    files.close()


def test_what_comes_by_the_page_is_read_to_its_end(tmp_path, monkeypatch):
    (tmp_path / "long").write_bytes(b"x" * 10_000)
    pieces = []
    pread = os.pread

    def by_the_page(fd, size, place):
        pieces.append(place)
        return pread(fd, min(size, 4096), place)

    monkeypatch.setattr(counters.os, "pread", by_the_page)
    assert len(Files({"long": str(tmp_path / "long")}, keep=False).read()["long"]) == 10_000
    assert pieces == [0, 4096, 8192]
