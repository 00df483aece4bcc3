"""Tests of engine.daemon.containers.health."""
