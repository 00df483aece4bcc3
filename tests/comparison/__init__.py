"""This engine beside a current dockerd: the same calls and the same containers, and in what the answers differ.

`python3 -m tests --long dockerd` runs it. What is here has no opinion: a difference is a fault of the engine, or has a
row in `differences` with its reason.
"""
