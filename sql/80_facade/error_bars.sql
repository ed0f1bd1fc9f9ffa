-- Error bars, and decisions, are columns of a statement sent to the proxy: it recognises these calls beside the aggregates, and the facade's copies give
-- them their types. Here, in a direct session, there is nothing that they could be bars of.
DO $bars$
DECLARE
  item record;
BEGIN
  FOR item IN SELECT * FROM (VALUES
      ('dp_low', 'anyelement', 'The lower end of the interval, at dp.confidence, around one aggregate of the same query'),
      ('dp_high', 'anyelement', 'The upper end of the interval, at dp.confidence, around one aggregate of the same query'),
      ('dp_stderr', 'double precision', 'The standard deviation of the noise in one aggregate of the same query'),
      ('dp_decision', 'boolean', 'Whether the synthetic table of the session (dp.synthetic) was found to answer one aggregate of the same query within dp.tau')) AS v(name, result, what) LOOP
    EXECUTE format($make$
      CREATE OR REPLACE FUNCTION dp.%1$I(aggregate anyelement) RETURNS %2$s
      LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
      BEGIN
        RAISE EXCEPTION USING ERRCODE = 'DP003', MESSAGE = '%1$s() is answered by the proxy only',
          HINT = 'Send SELECT count(*), %1$s(count(*)) FROM ... to the proxy; here, the NOTICE of a dp_* call tells its margin.';
      END $body$ $make$, item.name, item.result);
    EXECUTE format('COMMENT ON FUNCTION dp.%I(anyelement) IS %L', item.name, item.what || ': in statements sent to the proxy. NULL: unknown. Costs nothing.');
    EXECUTE format('REVOKE ALL ON FUNCTION dp.%I(anyelement) FROM PUBLIC', item.name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION dp.%I(anyelement) TO dp_analyst, dp_gateway', item.name);
  END LOOP;
END $bars$;
