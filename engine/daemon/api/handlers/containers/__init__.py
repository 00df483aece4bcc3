"""The endpoints of containers: those of every day in one file, and those that an idle daemon does without."""
