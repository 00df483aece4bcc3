"""Tests of engine.daemon.containers.stats."""
