"""The matrix mechanism's public half: workloads, strategies, least squares, predicted errors. No data, no noise.

Everything here is a function of public numbers: queries, bucket weights, a threshold that was released. So it costs no
budget, and floating point is no risk to privacy: the sensitivity of what is drawn is recomputed on integers
(lattice.py). Source: sum-workloads.md §7, §8.
"""
