"""Tests of `engine.asking`."""
