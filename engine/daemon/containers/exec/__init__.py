"""Execs, the further commands that clients or the engine run in a running container."""
