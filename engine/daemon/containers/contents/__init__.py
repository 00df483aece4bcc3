"""A container's files, as the daemon reaches them: copies in and out, changes, commits."""
