"""Tests of what the benchmarks conclude and show; nothing in here measures."""
