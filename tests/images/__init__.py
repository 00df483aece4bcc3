"""Tests of images against other people's tools: docker-registry, skopeo and umoci, and with root's rights."""
