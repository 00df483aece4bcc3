"""Tests of engine.daemon.containers.endpoints."""
