"""A container's standard streams: its log, attached clients, and the size of its terminal."""
