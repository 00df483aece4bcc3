"""Chaos: kills, full disks, power cuts, hostile clients, generated requests and long runs against real daemons.

Each file has a short form, which is part of every run, and a full form (`python3 -m tests --long chaos`). What is
random comes from one seed, which a failure shows: see `form`.
"""
