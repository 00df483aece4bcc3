"""Tests of engine/daemon/buildkit/lint."""
