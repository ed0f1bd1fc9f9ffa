"""Data that is released once and answers a declared family of sums for ever (numeric-release.md)."""
