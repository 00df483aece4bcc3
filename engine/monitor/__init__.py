"""The monitor: one process a container; it owns the container's output, log, clients and exit status."""
