"""The daemon's SQLite database: its connection, its schema with one file for each group of tables, and all SQL of the
engine.
"""
