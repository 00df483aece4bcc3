"""What a client can do with a container: one file a verb."""
