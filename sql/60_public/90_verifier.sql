CREATE FUNCTION dp.verifier(role name) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT a.rolpassword FROM pg_authid a
  WHERE a.rolname = role AND a.rolcanlogin AND a.rolpassword LIKE 'SCRAM-SHA-256$%'
    AND (a.rolvaliduntil IS NULL OR a.rolvaliduntil > clock_timestamp())
    AND NOT (a.rolsuper OR a.rolbypassrls OR a.rolcreaterole OR a.rolcreatedb OR a.rolreplication)
    AND pg_has_role(a.oid, 'dp_analyst', 'MEMBER')
    AND NOT EXISTS (SELECT FROM pg_roles f WHERE (f.rolname IN ('dp_owner', 'dp_admin', 'dp_gateway', 'dp_channel', 'dp_auth', 'dp_facade', 'dp_reader') OR f.rolname LIKE 'pg\_%')
                    AND pg_has_role(a.oid, f.oid, 'MEMBER'))
$$;
COMMENT ON FUNCTION dp.verifier(name) IS 'The SCRAM verifier of an analyst who may log in through the proxy now; NULL for everybody else. Owned by dp_auth, for dp_gateway alone.';
REVOKE ALL ON FUNCTION dp.verifier(name) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.verifier(name) TO dp_gateway;
