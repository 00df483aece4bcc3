"""System calls and kernel interfaces that the standard library does not have (mounts, namespaces, netlink, bpf,
inotify).
"""
