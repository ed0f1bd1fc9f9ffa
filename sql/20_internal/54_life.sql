CREATE FUNCTION dp._life() RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  current uuid;
BEGIN
  LOOP
    SELECT l.id INTO current FROM dp.life l;
    IF FOUND THEN
      RETURN current;
    END IF;
    INSERT INTO dp.life DEFAULT VALUES ON CONFLICT DO NOTHING;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._life() IS 'The id of the time since the server''s last crash: made anew by whoever first asks after one.';
REVOKE ALL ON FUNCTION dp._life() FROM PUBLIC;
