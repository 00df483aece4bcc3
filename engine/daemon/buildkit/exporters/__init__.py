"""What becomes of a build's result: an image here or in a registry, an archive or a directory of the client.

One file for each kind of exporter, and beside them what they share: how an image's documents are composed, how layers
are compressed anew, how files are sent to the client. `buildkit.exporting` has the table of kinds.
"""
