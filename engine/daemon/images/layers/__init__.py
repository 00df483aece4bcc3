"""Layers on the disk: the storage kind, unpacking with whiteouts, the store of layers, and a merged view of them."""
