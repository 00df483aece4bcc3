"""Tests of engine.daemon.containers.exec."""
