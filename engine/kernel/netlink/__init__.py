"""Netlink to the kernel: the encoding (`message`), the socket, and requests for links, addresses, nf_tables and
conntrack.
"""
