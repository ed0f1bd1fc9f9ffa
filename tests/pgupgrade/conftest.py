"""pg_upgrade from PostgreSQL 15 to 17: make test-pg-upgrade runs it on Debian 13 with Debian 12's server beside it."""
