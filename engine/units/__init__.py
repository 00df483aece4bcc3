"""The units that let systemd start, stop and reload the daemon, and the command that installs them."""
