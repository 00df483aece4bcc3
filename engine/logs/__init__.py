"""The logs of containers: their formats on disk, their writers and readers, and the log drivers."""
