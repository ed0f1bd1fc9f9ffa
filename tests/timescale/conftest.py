"""Tests with TimescaleDB: make test-timescale runs them on Debian 13, where it is a package."""
