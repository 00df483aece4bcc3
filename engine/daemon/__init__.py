"""The daemon's side of the engine: its threads, API, state, images and networks.

It shares no code with the processes that run containers (spawner, monitors, launchers) beyond the common packages, and
talks to them in `wire` messages only. The sources call the two sides the daemon tower and the container tower.
"""
