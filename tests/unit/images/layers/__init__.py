"""Tests of the image store's room images/layers, without root."""
