"""Tar streams: reading and writing them, their compression, and files made and removed as they say."""
