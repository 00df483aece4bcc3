"""COPY and ADD: what is copied, where it goes, and the layer that it makes."""
