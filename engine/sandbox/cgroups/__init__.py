"""The cgroups of a container (limits, counters, freezing, removal), for version 1, version 2 and hybrid hosts."""
