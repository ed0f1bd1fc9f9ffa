CREATE FUNCTION dp._cache_status() RETURNS TABLE (request_id uuid, relation text, mechanism text, as_of timestamptz, served boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.request_id, r.relation_key, r.mechanism, r.as_of::timestamptz(0), COALESCE(r.data_version = p.data_version AND (p.refresh_every IS NULL
           OR floor(extract(epoch FROM r.as_of) / extract(epoch FROM p.refresh_every)) = floor(extract(epoch FROM clock_timestamp()) / extract(epoch FROM p.refresh_every))), false)
  FROM dp.release r LEFT JOIN dp.relation_policy p ON p.relation_key = r.relation_key AND p.dataset = r.dataset
  WHERE EXISTS (SELECT FROM dp.role_allotment a WHERE a.dataset = r.dataset AND a.role = dp._who()) OR pg_has_role(session_user, 'dp_admin', 'MEMBER')
$$;
COMMENT ON FUNCTION dp._cache_status() IS 'Rows of dp.cache_status for who asks.';
REVOKE ALL ON FUNCTION dp._cache_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._cache_status() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.cache_status AS SELECT * FROM dp._cache_status();
COMMENT ON VIEW dp.cache_status IS 'Releases that can be served again for free; served is false once dp.refresh or the declared period moved the data version.';
GRANT SELECT ON dp.cache_status TO dp_analyst, dp_gateway, dp_admin;
