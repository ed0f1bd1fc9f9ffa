CREATE FUNCTION dp.grid(VARIADIC parameters text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most  constant numeric := 100000;
  size  numeric := 1;
  found text[];
  list  text;
  own   text[];
BEGIN
  -- all lists before any row: what is refused is refused at once
  FOREACH list IN ARRAY COALESCE(NULLIF(parameters, '{}'), '{NULL}') LOOP
    own := list::text[];
    size := size * COALESCE(cardinality(own), 0);
    IF size = 0 OR size > most OR array_ndims(own) > 1 OR array_position(own, NULL) IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('a grid is made of lists of values, none of them NULL, and has 1 to %s rows', most),
        HINT = 'dp.grid(''{17,18,19}'', ''{hs,ba}'') has six rows. Shorten the lists, or ask in parts.';
    END IF;
  END LOOP;
  FOREACH list IN ARRAY parameters LOOP
    own := list::text[];
    IF found IS NULL THEN
      SELECT array_agg(ARRAY[v.value] ORDER BY v.place) INTO found FROM unnest(own) WITH ORDINALITY v(value, place);
    ELSE
      -- not slice by slice: each would be looked for from the array's beginning
      SELECT array_agg(f.line || v.value ORDER BY f.place, v.place) INTO found
      FROM (SELECT (u.place - 1) / array_length(found, 2) AS place, array_agg(u.value ORDER BY u.place) AS line
            FROM unnest(found) WITH ORDINALITY u(value, place) GROUP BY 1) f
      CROSS JOIN unnest(own) WITH ORDINALITY v(value, place);
    END IF;
  END LOOP;
  RETURN found;
END $$;
COMMENT ON FUNCTION dp.grid(text[]) IS 'All combinations of lists of values, one row each, the last list''s values fastest: dp.grid(''{17,18}'', ''{hs,ba}''). For the grid of dp_release_numeric. DP005 above 100,000 rows.';
REVOKE ALL ON FUNCTION dp.grid(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.grid(text[]) TO dp_analyst, dp_gateway;
