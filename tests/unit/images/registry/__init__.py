"""Tests of engine.daemon.images.registry, without root."""
