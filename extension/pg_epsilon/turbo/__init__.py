"""Turbo: a cache of differentially private answers to linear queries (spec/turbo.md; SOSP'23, corrected).

The algorithms are pure: what one reads and writes goes through `books.Books`, what it draws through
`noise.NoiseSource`. All values are integers on a public lattice: counts, and sums in steps of 2^-bits. Around them, no
plpy either: `catalog` and `sql_books` (Turbo's tables, by a function that runs SQL), `payer`, `engine` (one request),
`dry` (a dry run), `owner` (what an owner does), `retention` (rows he removed), `why` (why another mechanism answers).
"""
