"""Tests of `bench.memory`: the parsers on text, the measures on this very process."""

import mmap
import os
import time

import pytest

from bench import memory

ROLLUP = """\
55f0c0a00000-7ffd3b9fe000 ---p 00000000 00:00 0                          [rollup]
Rss:                4204 kB
Pss:                1731 kB
Pss_Dirty:           312 kB
"""
MAPS = """\
55f0c0a00000-55f0c0a02000 r--p 00000000 fe:00 1234                       /usr/bin/cat
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""


def test_the_pss_is_the_line_of_that_name_and_no_other():
    assert memory.parse_pss(ROLLUP) == 1731 * 1024


def test_a_zombie_has_no_memory():
    assert memory.parse_pss("") == 0


def test_the_kernels_own_page_is_no_ones_memory():
    assert list(memory.parse_maps(MAPS)) == [(0x55F0C0A00000, 0x55F0C0A02000)]


def test_a_process_that_is_gone_counts_nothing():
    gone = os.spawnlp(os.P_WAIT, "true", "true") + (1 << 22)
    assert memory.pss([gone]) == memory.distinct([gone]) == 0


def test_memory_that_is_written_to_is_counted():
    before = memory.pss([os.getpid()])
    with mmap.mmap(-1, 32 << 20) as block:
        block.write(b"x" * len(block))
        assert memory.pss([os.getpid()]) - before > 24 << 20


def test_the_most_is_what_there_was_even_when_it_is_gone_again():
    before = memory.pss([os.getpid()])
    with memory.Most(lambda: [os.getpid()]) as most, mmap.mmap(-1, 32 << 20) as block:
        block.write(b"x" * len(block))
        end = time.monotonic() + 30
        while most.value < before + (24 << 20) and time.monotonic() < end:
            time.sleep(0.01)
    assert most.value - before > 24 << 20


@pytest.mark.root
def test_distinct_pages_are_at_least_the_pss_and_a_process_named_twice_counts_once():
    one = memory.distinct([os.getpid()])
    assert one >= memory.pss([os.getpid()]) * 0.9
    assert memory.distinct([os.getpid(), os.getpid()]) == pytest.approx(one, rel=0.05)
