"""Tests of engine.daemon.network.drivers."""
