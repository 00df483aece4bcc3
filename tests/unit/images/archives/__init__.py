"""Tests of the image store's room images/archives, without root."""
