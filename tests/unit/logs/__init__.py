"""Tests of engine.logs."""
