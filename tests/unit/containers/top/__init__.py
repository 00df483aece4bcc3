"""Tests of engine.daemon.containers.top."""
