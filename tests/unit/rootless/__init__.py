"""Tests of engine.rootless."""
