"""Unit tests of the client's way to a daemon."""
