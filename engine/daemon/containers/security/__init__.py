"""What a container is to be shut into: HostConfig's words as the data of `engine.sandbox`."""
