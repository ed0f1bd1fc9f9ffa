-- The predicate may be a megabyte long, and names of groups and aggregates are the client's own: they are left out.
CREATE FUNCTION dp._last_answer_of(answer jsonb, who name) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT jsonb_build_object('who', who, 'request_id', answer -> 'request_id', 'call', n -> 'call', 'path', n -> 'path', 'mechanism', n -> 'mechanism',
           'charge', COALESCE(n -> 'charge', '{}'), 'margin', n -> 'margin', 'left', n -> 'left', 'as_of', n -> 'as_of', 'facts', CASE WHEN octet_length(f::text) <= 8192 THEN f END)
  FROM (SELECT answer -> 'notice', (answer -> 'notice') - '{call,path,mechanism,charge,margin,left,as_of,text,where,relation,keys,aggregates}'::text[]) notice(n, f));
END $$;
COMMENT ON FUNCTION dp._last_answer_of(jsonb, name) IS 'What dp.last_answer shows of an answer, and whose it is.';
REVOKE ALL ON FUNCTION dp._last_answer_of(jsonb, name) FROM PUBLIC;
