"""Tests of engine.monitor."""
