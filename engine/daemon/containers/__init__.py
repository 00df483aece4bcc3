"""The daemon's containers: their record, the table of their states, and a folder for each group of their jobs."""
