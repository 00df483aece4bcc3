"""Tests of engine.kernel."""
