"""Talking netlink to the kernel: message (bytes), socket (transport), what is said: loopback, links, addresses, ..."""
