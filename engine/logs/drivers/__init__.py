"""The log drivers (json-file, local, journald, syslog): for each one its options and how it writes or sends a line."""
