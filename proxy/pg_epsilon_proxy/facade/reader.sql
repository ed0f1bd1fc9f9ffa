-- The facade's own door to public tables (rows and all): a foreign server whose remote role dp_reader may SELECT exactly those.
-- Superuser, repeatable. Inputs: pg_epsilon.reader_host, _port, _database, and _password: empty means that the private database is in
-- this cluster and a new random password is set for dp_reader.
CREATE SCHEMA IF NOT EXISTS dp_link;
REVOKE ALL ON SCHEMA dp_link FROM PUBLIC;
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA dp_link;
DO $$
DECLARE
  password text := pg_catalog.current_setting('pg_epsilon.reader_password', true);
  options  text := '';
  item     text;
BEGIN
  FOR item IN SELECT 'REVOKE ALL ON FUNCTION ' || d.objid::regprocedure || ' FROM PUBLIC'
      FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid AND x.extname = 'postgres_fdw'
      WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' LOOP
    EXECUTE item;
  END LOOP;
  IF EXISTS (SELECT FROM pg_catalog.pg_foreign_server WHERE srvname = 'pg_epsilon_public') THEN
    FOR item IN SELECT pg_catalog.split_part(o, '=', 1) FROM pg_catalog.pg_foreign_server s, pg_catalog.unnest(s.srvoptions) o
        WHERE s.srvname = 'pg_epsilon_public' LOOP
      options := options || pg_catalog.format(', DROP %I', item);
    END LOOP;
    IF options <> '' THEN EXECUTE 'ALTER SERVER pg_epsilon_public OPTIONS (' || pg_catalog.substr(options, 3) || ')'; END IF;
  ELSE
    CREATE SERVER pg_epsilon_public FOREIGN DATA WRAPPER postgres_fdw;
  END IF;
  EXECUTE pg_catalog.format('ALTER SERVER pg_epsilon_public OPTIONS (ADD host %L, ADD port %L, ADD dbname %L, ADD connect_timeout %L,
    ADD fetch_size %L, ADD updatable %L, ADD truncatable %L)', pg_catalog.current_setting('pg_epsilon.reader_host'),
    pg_catalog.current_setting('pg_epsilon.reader_port'), pg_catalog.current_setting('pg_epsilon.reader_database'), '3', '1000', 'false', 'false');
  REVOKE ALL ON FOREIGN SERVER pg_epsilon_public FROM PUBLIC;
  GRANT USAGE ON FOREIGN SERVER pg_epsilon_public TO dp_facade;
  IF COALESCE(password, '') = '' THEN
    -- Made inside DO and EXECUTE: a password here is in no log, also with log_statement = all.
    password := pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.gen_random_uuid()::text
      || pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text, 'UTF8')), 'hex');
    EXECUTE pg_catalog.format('ALTER ROLE dp_reader LOGIN PASSWORD %L', password);
  END IF;
  DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER pg_epsilon_public;
  EXECUTE pg_catalog.format('CREATE USER MAPPING FOR PUBLIC SERVER pg_epsilon_public OPTIONS (user %L, password %L)', 'dp_reader', password);
END $$;
