"""Unit tests of `engine.spawner`."""
