"""A container engine for Linux that speaks the Docker Engine API; nothing outside the standard library."""
