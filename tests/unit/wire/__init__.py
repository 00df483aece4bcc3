"""Unit tests of `engine.wire`."""
