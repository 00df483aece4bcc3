"""The client's way to a daemon: where it is, and the socket that leads there."""
