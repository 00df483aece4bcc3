"""Between two runs of a container: what ends one, and what begins the next."""
