"""The endpoints of images: the everyday ones in one file, and in the others those that an idle daemon does not load."""
