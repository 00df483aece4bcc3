"""Tests that talk HTTP to a running daemon."""
