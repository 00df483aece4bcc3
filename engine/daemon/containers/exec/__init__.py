"""Execs: more commands in a container that runs."""
