"""Unit tests of `engine.daemon.runtime`."""
