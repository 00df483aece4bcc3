"""Unit tests of how the client shows things."""
