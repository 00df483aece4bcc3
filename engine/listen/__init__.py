"""The sleeper: holds the daemon's sockets on a host without systemd, and has a daemon started for each client."""
