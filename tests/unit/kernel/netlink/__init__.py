"""Tests of engine.kernel.netlink."""
