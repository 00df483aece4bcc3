"""The settings of the daemon: each option is declared once, with its default, check, help and key in the configuration
file.
"""
