"""Batches of sums: truncation and the matrix mechanism (sum-workloads.md)."""
