"""Tests of engine/daemon/build/git."""
