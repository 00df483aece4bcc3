"""Talking netlink to the kernel: message (bytes), socket (transport), route (links)."""
