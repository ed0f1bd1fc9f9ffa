CREATE FUNCTION dp._link_records(dataset text, after bigint) RETURNS TABLE (kind text, content jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  SELECT p.kind, p.content
  FROM dp.chain c
  LEFT JOIN dp.ledger l ON l.request_id = c.request_id
  LEFT JOIN dp.release r ON c.kind = 'release' AND r.request_id = c.request_id
  CROSS JOIN LATERAL (
    SELECT 1 AS place, 'ledger' AS kind, to_jsonb(l) AS content WHERE c.kind <> 'release' AND l.request_id IS NOT NULL
    UNION ALL SELECT 1, 'release', to_jsonb(r) || jsonb_build_object('salt', l.salt) WHERE r.request_id IS NOT NULL
    UNION ALL SELECT 2, 'chain', to_jsonb(c) || jsonb_build_object('asked', encode(c.asked, 'hex'), 'answered', encode(c.answered, 'hex'), 'hash', encode(c.hash, 'hex'))) p
  WHERE c.dataset = _link_records.dataset AND c.number > _link_records.after
  ORDER BY c.number, p.place
$$;
COMMENT ON FUNCTION dp._link_records(text, bigint) IS 'The links of a dataset after a number, each behind the ledger row or the release that it links.';
REVOKE ALL ON FUNCTION dp._link_records(text, bigint) FROM PUBLIC;

CREATE FUNCTION dp._ledger_records() RETURNS TABLE (kind text, content jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  SELECT 'dataset', to_jsonb(d) FROM dp.dataset d
  UNION ALL SELECT 'head', to_jsonb(h) || jsonb_build_object('hash', encode(h.hash, 'hex')) FROM dp.chain_head h
  UNION ALL SELECT 'account', to_jsonb(a) FROM dp.account a
  UNION ALL SELECT 'redacted', r.part || jsonb_build_object('dataset', l.dataset)
            FROM dp.ledger l CROSS JOIN LATERAL jsonb_array_elements(l.request -> 'redacted') r(part) WHERE l.kind = 'redact'
  -- what is older than the chain, as dp._chain_upgrade() digested it
  UNION ALL (SELECT 'ledger', to_jsonb(l) FROM dp.ledger l
             WHERE NOT EXISTS (SELECT FROM dp.chain c WHERE c.request_id = l.request_id AND c.kind <> 'release') ORDER BY l.seq)
  UNION ALL (SELECT 'release', to_jsonb(r) || jsonb_build_object('salt', l.salt) FROM dp.release r LEFT JOIN dp.ledger l USING (request_id)
             WHERE NOT EXISTS (SELECT FROM dp.chain c WHERE c.request_id = r.request_id AND c.kind = 'release') ORDER BY r.request_id)
  -- each row, then its link
  UNION ALL (SELECT p.kind, p.content FROM dp.dataset d CROSS JOIN LATERAL dp._link_records(d.name, 0) p)
$$;
COMMENT ON FUNCTION dp._ledger_records() IS 'The ledger as records: datasets, heads of chains, accounts, what was redacted, rows that are older than the chain, then every row with its link. For dp.export_ledger() and pg-epsilon ledger verify.';
REVOKE ALL ON FUNCTION dp._ledger_records() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._ledger_records() TO dp_admin;
