"""Tests of the database and of the images' tables."""
