"""Tests of engine.daemon.containers.verbs."""
