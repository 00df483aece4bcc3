"""Tests that drive the daemon with real clients."""
