"""Tests of COPY and ADD as far as they need no root."""
