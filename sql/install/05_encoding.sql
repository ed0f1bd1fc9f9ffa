-- Run by a superuser, in the private database:  psql -d mydb -f pg_epsilon_install.sql     (idempotent)
-- Before a restore, only the roles:              psql -v roles_only=1 -f pg_epsilon_install.sql
\if :{?roles_only}
\else
DO $$
BEGIN
  IF pg_catalog.current_setting('server_encoding') = 'SQL_ASCII' THEN
    RAISE EXCEPTION 'pg_epsilon answers nothing in a database whose encoding is SQL_ASCII'
      USING ERRCODE = 'DP006', HINT = 'Create the database with a known encoding and load the tables there: CREATE DATABASE name ENCODING ''UTF8'' TEMPLATE template0.';
  END IF;
END $$;
\endif
