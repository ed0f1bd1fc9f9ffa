CREATE FUNCTION dp.session_settings() RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT jsonb_object_agg(s.name, s.value) FROM (
    SELECT n AS name, NULLIF(current_setting(n, true), '') AS value
    FROM unnest(ARRAY['TimeZone', 'DateStyle', 'IntervalStyle', 'application_name', 'dp.epsilon', 'dp.rho', 'dp.alpha', 'dp.beta', 'dp.mechanism', 'dp.confidence', 'dp.notices', 'dp.synthetic', 'dp.synthetic_policy', 'dp.tau', 'dp.windows', 'dp.workloads', 'transform_null_equals', 'array_nulls']) n
    UNION ALL
    SELECT 'now', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00') s);
END $$;
COMMENT ON FUNCTION dp.session_settings() IS 'The settings that give a statement its meaning and its budget (TimeZone, DateStyle, now(), dp.*), as sent with every request. A setting is a request: limits live in the catalog.';
REVOKE ALL ON FUNCTION dp.session_settings() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.session_settings() TO dp_analyst, dp_gateway, dp_admin;
