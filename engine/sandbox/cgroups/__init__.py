"""The cgroups of a container, on whichever hierarchy the host has."""
