"""An image's layers on the disk."""
