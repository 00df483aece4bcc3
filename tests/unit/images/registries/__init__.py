"""Tests of the image store's room images/registries, without root."""
