"""The processes of a running container: execs, health checks, their list and what they use."""
