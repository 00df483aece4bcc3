"""The regular expressions of filters."""
