"""Tests of engine.daemon.volumes."""
