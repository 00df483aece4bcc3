"""The settings of the daemon: every option once."""
