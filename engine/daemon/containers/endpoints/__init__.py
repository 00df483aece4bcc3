"""A container's endpoints in networks: joining and leaving, published ports, names, /etc/hosts, and what is shown."""
