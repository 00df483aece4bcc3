"""The verbs of the API on containers (create, start, stop, kill, remove, ...), one in each file."""
