"""Unit tests of `engine.monitor`."""
