"""What a client can do with images: one file a verb."""
