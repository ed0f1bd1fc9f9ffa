"""pg_epsilon: differential privacy for PostgreSQL, the engine's pure part (entry.py alone sees a database)."""

from pg_epsilon._version import VERSION as __version__

__all__ = ["__version__"]
