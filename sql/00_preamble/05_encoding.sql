DO $$
BEGIN
  IF pg_catalog.current_setting('server_encoding') = 'SQL_ASCII' THEN
    RAISE EXCEPTION 'pg_epsilon answers nothing in a database whose encoding is SQL_ASCII'
      USING ERRCODE = 'DP006', HINT = 'Create the database with a known encoding and load the tables there: CREATE DATABASE name ENCODING ''UTF8'' TEMPLATE template0.';
  END IF;
END $$;
