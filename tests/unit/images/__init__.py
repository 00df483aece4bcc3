"""Tests of the image store's room, without root: archives belong to whoever runs them."""
