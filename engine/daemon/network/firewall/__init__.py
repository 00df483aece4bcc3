"""The engine's own table of nf_tables: what it holds, and how it is changed in one piece."""
