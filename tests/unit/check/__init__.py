"""Tests of engine/check."""
