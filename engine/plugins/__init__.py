"""Plugins of docker's protocol: finding them by their sockets and spec files, and calling them."""
