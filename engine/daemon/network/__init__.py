"""Networks: what they are, their addresses, their devices in the kernel, the firewall, published ports, names."""
