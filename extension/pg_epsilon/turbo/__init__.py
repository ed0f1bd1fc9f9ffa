"""Turbo: a cache of differentially private answers to linear queries (spec/turbo.md; SOSP'23, corrected).

Pure: no I/O and no plpy. What an algorithm reads and writes goes through `books.Books`, what it draws through
`noise.NoiseSource`. All values are integers on a public lattice: counts, and sums in steps of 2^-bits.
"""
