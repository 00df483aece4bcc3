"""Tests that build real sandboxes; they need root, and are to be run in mount and network namespaces of their own."""
