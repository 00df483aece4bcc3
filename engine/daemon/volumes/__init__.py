"""Volumes: directories with names that outlive containers, and the local driver's options for what is mounted there."""
