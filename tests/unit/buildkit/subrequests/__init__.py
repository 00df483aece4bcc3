"""Tests of engine/daemon/buildkit/subrequests."""
