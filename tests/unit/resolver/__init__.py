"""Unit tests of `engine.resolver`."""
