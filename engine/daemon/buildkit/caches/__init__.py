"""Caches that builds take along: in a registry, in a directory of the client, in an image; BuildKit's format of them.

One file for each place, and beside them the format, how a cache is written from what a build has made, and how a build
borrows from one. `buildkit.caching` has the table of places.
"""
