CALL dp.harden_catalog();
DO $$
BEGIN
  EXECUTE pg_catalog.format('ALTER DATABASE %I SET search_path = "$user", public, dp', pg_catalog.current_database());
  EXECUTE pg_catalog.format('REVOKE CONNECT, TEMPORARY, CREATE ON DATABASE %I FROM PUBLIC', pg_catalog.current_database());
  EXECUTE pg_catalog.format('GRANT CONNECT ON DATABASE %I TO dp_gateway, dp_reader, dp_admin', pg_catalog.current_database());
END $$;
