"""Unit tests: they mirror `engine/` and need no root."""
