CREATE FUNCTION dp.dp_request_of(request_id uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.request FROM dp.ledger l WHERE l.request_id = dp_request_of.request_id AND l.kind = 'charge' AND l.who = dp._who()
$$;
COMMENT ON FUNCTION dp.dp_request_of(uuid) IS 'The request of a charge of your own, by its id (dp.spending): for dp_plan, and for dp_query, which answers it again, free while its release is served. NULL for the requests of others, and where the question was redacted.';
REVOKE ALL ON FUNCTION dp.dp_request_of(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_request_of(uuid) TO dp_analyst, dp_gateway;
