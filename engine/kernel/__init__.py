"""System calls and kernel interfaces that the standard library does not have."""
