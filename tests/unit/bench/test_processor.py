"""Tests of `bench.processor`."""

import os
import time

from bench import processor

STAT = "12 (a ) b) S 1 12 12 0 -1 4194560 900 0 0 0 250 150 7 8 20 0 1 0 99 1000 10"


def test_user_and_system_time_are_added_whatever_the_command_is_called():
    assert processor.parse_stat(STAT) == 400 / os.sysconf("SC_CLK_TCK")


def test_a_busy_process_takes_time_and_one_that_has_gone_takes_none():
    before, began = processor.seconds([os.getpid()]), time.process_time()
    while time.process_time() - began < 0.1:
        pass
    assert processor.seconds([os.getpid(), 2**22 + 1]) - before >= 0.08
