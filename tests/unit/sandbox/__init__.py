"""Tests of engine.sandbox."""
