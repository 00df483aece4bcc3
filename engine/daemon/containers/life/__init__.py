"""The time between two runs of a container: recording an end, restart policies, and out-of-memory alarms."""
