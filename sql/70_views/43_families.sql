CREATE FUNCTION dp._families() RETURNS TABLE (dataset text, name text, relation text, query text, yours boolean, classes text[], cells bigint, queries integer, price jsonb, as_of timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT f.dataset, f.name, f.relation_key, f.query, f.who = dp._who(), ARRAY(SELECT c ->> 0 FROM jsonb_array_elements(f.facts -> 'classes') c),
         (f.facts ->> 'cells')::bigint, CASE WHEN f.who = dp._who() THEN f.queries END, f.facts -> 'price', r.as_of
  FROM dp.family f JOIN dp.release r USING (request_id)
  WHERE pg_has_role(session_user, 'dp_admin', 'MEMBER') OR EXISTS (SELECT FROM dp.role_allotment a WHERE a.dataset = f.dataset AND a.role = dp._who())
  ORDER BY f.dataset, f.name
$$;
COMMENT ON FUNCTION dp._families() IS 'Rows of dp.families for who asks.';
REVOKE ALL ON FUNCTION dp._families() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._families() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.families AS SELECT * FROM dp._families();
COMMENT ON VIEW dp.families IS 'Families that were released by dp_release_numeric in your datasets: what each sums up, over which columns, what it cost. Questions about sets of its classes are answered from it for nothing. queries: of your last grid; others do not see how many yours has.';
GRANT SELECT ON dp.families TO dp_analyst, dp_gateway, dp_admin;
