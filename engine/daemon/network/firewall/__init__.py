"""The engine's own nf_tables table: fixed rules, each network's rules, changes to it, and the host's forwarding."""
