"""Images: references, registries, layers, archives and the store."""
