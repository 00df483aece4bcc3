"""The log drivers: one file each, with its options and what it makes of a line."""
