"""Tests of engine.daemon.containers.security."""
