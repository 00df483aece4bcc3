"""The daemon's links to the spawner and to the monitors, and those who wait on them."""
