"""Tests of engine.daemon.containers.networking."""
