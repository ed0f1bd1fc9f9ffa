CREATE FUNCTION dp._claim(request_id uuid) RETURNS TABLE (who text, request text, mechanism text, charge text, scope text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
#variable_conflict use_variable
BEGIN
  RETURN QUERY SELECT l.who::text, l.request::text, l.mechanism, l.charge::text, l.scope::text
    FROM dp.ledger l WHERE l.request_id = request_id AND l.kind = 'charge' FOR UPDATE;
END $$;
COMMENT ON FUNCTION dp._claim(uuid) IS 'The committed charge of a request, its row locked until the transaction ends, so that its answer is drawn once. Waits for whoever draws it now as long as that takes: a read has no time limit.';
REVOKE ALL ON FUNCTION dp._claim(uuid) FROM PUBLIC;

CREATE FUNCTION dp._count_start(request_id uuid) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET synchronous_commit = on AS $$
  UPDATE dp.entitlement e SET starts = e.starts + 1, cut = e.cut + (e.life <> l.id)::integer, life = l.id
  FROM dp._life() l(id) WHERE e.request_id = _count_start.request_id AND e.starts < 8 RETURNING e.starts
$$;
COMMENT ON FUNCTION dp._count_start(uuid) IS 'Counts one more read of an entitlement, before it begins, in a transaction of its own on a connection of its own. NULL: it has ended.';
REVOKE ALL ON FUNCTION dp._count_start(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._count_start(uuid) TO dp_channel;
