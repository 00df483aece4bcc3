"""The house's rules on files and imports, decided by reading the sources; there are no waivers."""
