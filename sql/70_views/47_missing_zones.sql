CREATE FUNCTION dp._missing_zones(names text[]) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  zone text;
BEGIN
  FOREACH zone IN ARRAY names LOOP
    BEGIN
      PERFORM timestamptz '2024-07-01 12:00+00' AT TIME ZONE zone;
    EXCEPTION WHEN invalid_parameter_value THEN
      RETURN NEXT zone;
    END;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._missing_zones(text[]) IS 'Those of the named time zones that the server has no data of.';
REVOKE ALL ON FUNCTION dp._missing_zones(text[]) FROM PUBLIC;
