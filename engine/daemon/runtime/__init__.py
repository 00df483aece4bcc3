"""The daemon's links to the spawner and to the monitors of containers, its event bus, and its background threads."""
