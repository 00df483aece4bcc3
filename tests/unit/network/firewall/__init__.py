"""Tests of engine/daemon/network/firewall."""
