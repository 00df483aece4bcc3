"""Health checks of containers: when a probe runs, how it runs, and what its result means."""
