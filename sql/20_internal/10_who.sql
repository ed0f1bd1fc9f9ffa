CREATE FUNCTION dp._who() RETURNS name
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN session_user = 'dp_gateway' THEN NULLIF(current_setting('dp.analyst', true), '')::name
              ELSE session_user END
$$;
COMMENT ON FUNCTION dp._who() IS 'Who is asking: session_user, which SET ROLE and SET cannot change; for the proxy''s gateway the analyst it authenticated. NULL: nobody.';
REVOKE ALL ON FUNCTION dp._who() FROM PUBLIC;
