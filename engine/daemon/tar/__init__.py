"""Tar archives: reading, writing, decompressing and unpacking them, and removing directory trees of unpacked files."""
