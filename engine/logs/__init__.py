"""A container's output: the log's files, their writer and reader, and the pump that moves the bytes."""
