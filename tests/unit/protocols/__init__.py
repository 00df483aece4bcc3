"""Tests of engine.protocols."""
