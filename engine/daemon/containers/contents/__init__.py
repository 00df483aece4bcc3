"""Access of the daemon to a container's files, for copies in and out, the list of changes, export and commit."""
