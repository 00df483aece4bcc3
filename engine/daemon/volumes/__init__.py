"""Volumes: directories with names that outlive containers, and what the local driver's options mount for them."""
