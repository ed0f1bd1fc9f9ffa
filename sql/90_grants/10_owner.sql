DO $$
DECLARE
  o record;
BEGIN
  FOR o IN SELECT format('ALTER %s %s OWNER TO dp_owner', CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, c.oid::regclass) AS ddl
           FROM pg_catalog.pg_class c WHERE c.relnamespace = 'dp'::regnamespace AND c.relkind IN ('r', 'v') LOOP
    EXECUTE o.ddl;
  END LOOP;
  FOR o IN SELECT format('ALTER ROUTINE %s OWNER TO %s', p.oid::regprocedure, CASE p.proname WHEN 'verifier' THEN 'dp_auth' ELSE 'dp_owner' END) AS ddl
           FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'dp'::regnamespace LOOP
    EXECUTE o.ddl;
  END LOOP;
END $$;
