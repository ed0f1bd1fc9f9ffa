"""pg-epsilon proxy: speaks the PostgreSQL wire protocol in front of the facade and the private database."""
