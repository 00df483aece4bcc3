"""The monitor: one process for each container or exec; it owns the output, log, attached clients and exit status."""
