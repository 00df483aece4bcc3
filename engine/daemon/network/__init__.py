"""Container networks: records, addresses, subnets, devices in the kernel, the firewall, published ports, and names."""
