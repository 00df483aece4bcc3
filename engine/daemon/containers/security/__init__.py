"""Isolation of a container: HostConfig's limits, rights, devices and namespaces as the data of `engine.sandbox`."""
