"""The endpoints of images: those of every day in one file, and those that an idle daemon does without."""
