"""A container's mounts: parsing the requests, resolving them to mount points, and preparing them for each start."""
