"""Images to and from tar archives."""
