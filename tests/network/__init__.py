"""Traffic for real: containers, hosts made of network namespaces, and what the firewall lets through."""
