"""Tests of engine/daemon/builder/git."""
