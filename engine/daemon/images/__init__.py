"""Images: references and documents, registries, layers, blobs, archives, and the catalogue of images on the host."""
