"""Containers: one file a verb, the record they share, and the table of states."""
