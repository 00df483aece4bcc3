"""The userland proxy without a daemon and without containers: the C version and the Python one, over the loopback."""
