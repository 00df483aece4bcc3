"""Brings over what a stopped dockerd has left in its data root, into a data root of this engine that no daemon has."""
