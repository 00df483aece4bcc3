"""What only another host can show: real cgroup v2, systemd, AppArmor, little memory, in a guest under emulation."""
