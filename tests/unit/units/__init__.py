"""The units for systemd."""
