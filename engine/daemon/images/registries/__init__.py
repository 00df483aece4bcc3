"""Images to and from registries."""
