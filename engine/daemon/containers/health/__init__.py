"""Health checks: what one is, and the probes of containers that run."""
