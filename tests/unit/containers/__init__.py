"""Unit tests of `engine.daemon.containers`."""
