CREATE FUNCTION dp.warm() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
  nothing uuid := gen_random_uuid();
BEGIN
  -- This backend's own engine (dry runs, remainders), by a pure calculation.
  PERFORM dp._engine_reply('renyi_orders', '{"epsilon": "1", "delta_rdp": "0.000001", "orders": null}');
  -- The channel's: an id that nobody has paid for is refused, after the engine was loaded.
  RETURN dp._channel_ask(format('SELECT dp._answer(%L)', nothing), nothing) ? 'refusal';
END $$;
COMMENT ON FUNCTION dp.warm() IS 'Loads the engine in this backend and opens its channel with the engine loaded there, so that the first question does not wait for it. Charges nothing, reads no row. DP006 if the channel does not work.';
REVOKE ALL ON FUNCTION dp.warm() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.warm() TO dp_gateway;

CREATE FUNCTION dp.budget_totals() RETURNS TABLE (dataset text, epsilon numeric, epsilon_left numeric, used numeric, frozen boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT d.name, d.epsilon, s.epsilon, s.used, dp._is_frozen(d.name)
  FROM dp.dataset d CROSS JOIN LATERAL dp._budget_left(d.name, NULL) s
$$;
COMMENT ON FUNCTION dp.budget_totals() IS 'Every dataset''s cap, what is left of it at its most spent partition, and the used part, for the proxy''s metrics: sums of charges, which are public facts; no role''s own figures.';
REVOKE ALL ON FUNCTION dp.budget_totals() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.budget_totals() TO dp_gateway;
