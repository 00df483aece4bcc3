"""Tests of engine.birth."""
