"""A container's side of its networks: joining and leaving them, what it is told of them, what is shown."""
