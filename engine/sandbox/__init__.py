"""What isolates a container: the specification, namespaces, mounts, cgroups, capabilities and seccomp."""
