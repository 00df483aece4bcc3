"""Tests of `engine.plugins` and of what the daemon does with plugins."""
