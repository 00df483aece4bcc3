"""A container engine for Linux that speaks the Docker Engine API; it uses nothing outside the standard library."""
