"""Tests of engine.daemon.containers."""
