"""Tests of engine.daemon.images.verbs."""
