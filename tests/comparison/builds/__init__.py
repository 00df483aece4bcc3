"""This engine beside a buildkitd: the same Dockerfiles and contexts, and in what the images differ.

`python3 -m tests --long buildkit` runs it. A difference is a fault of the engine, or has a row in `differences` with
its reason.
"""
