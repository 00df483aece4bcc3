"""Checks that run inside a booted guest, as root, on what the machine of the other tests cannot show."""
