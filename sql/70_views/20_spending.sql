CREATE FUNCTION dp._question(request jsonb) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN request IS NULL THEN NULL WHEN request ? 'query' THEN request ->> 'query' WHEN request ? 'release' THEN request #>> '{release,query}' WHEN request ? 'synthesize' THEN 'a synthetic copy of ' || (request #>> '{from,name}')
    WHEN NOT request ? 'aggregates' AND request ->> 'call' IS NOT NULL THEN concat_ws(' ',
      format('%s(%s)', request ->> 'call', concat_ws(', ', request #>> '{from,name}', (SELECT string_agg(format('%s => %s', m.name, m.value), ', ' ORDER BY m.name)
        FROM jsonb_each(request - '{version,call,from,joins,where,keys,budget,mechanism,fresh,bars,settings}'::text[]) m(name, value)))),
      'WHERE ' || (request ->> 'where'))
    ELSE concat_ws(' ',
      'SELECT ' || COALESCE((SELECT string_agg(o.shown, ', ') FROM (
          SELECT k.shown FROM jsonb_array_elements_text(NULLIF(request -> 'keys', 'null')) k(shown)
          UNION ALL
          SELECT CASE jsonb_typeof(a.item) WHEN 'string' THEN a.item #>> '{}' ELSE format('%s(%s)', a.item ->> 'function',
                   CASE WHEN a.item -> 'distinct' = 'true' THEN 'DISTINCT ' || COALESCE(a.item ->> 'argument', 'unit') ELSE COALESCE(a.item ->> 'argument', '*') END)
                 || COALESCE(' FILTER (WHERE ' || (a.item ->> 'filter') || ')', '') END
          FROM jsonb_array_elements(NULLIF(request -> 'aggregates', 'null')) a(item)) o), '*'),
      'FROM ' || quote_ident(request #>> '{from,name}') || COALESCE(' ' || quote_ident(NULLIF(request #>> '{from,alias}', request #>> '{from,name}')), ''),
      (SELECT string_agg('JOIN ' || quote_ident(j.item ->> 'name') || COALESCE(' ' || quote_ident(NULLIF(j.item ->> 'alias', j.item ->> 'name')), '') || COALESCE(' ON ' || (j.item ->> 'on'), ''), ' ') FROM jsonb_array_elements(NULLIF(request -> 'joins', 'null')) j(item)),
      'WHERE ' || (request ->> 'where'),
      'GROUP BY ' || NULLIF((SELECT string_agg(k.shown, ', ') FROM jsonb_array_elements_text(NULLIF(request -> 'keys', 'null')) k(shown)), ''),
      '(' || (SELECT string_agg(format('%s => %s', m.name, CASE WHEN length(m.value) > 200 THEN left(m.value, 200) || ' ...' ELSE m.value END), ', ' ORDER BY m.name)
        FROM jsonb_each_text(CASE jsonb_typeof(request -> 'workload') WHEN 'object' THEN request -> 'workload' END) m(name, value) WHERE m.value IS NOT NULL) || ')') END
    || COALESCE(' (within ' || COALESCE(request #>> '{decide,tau}', (request #>> '{decide,tau_percent}') || '%') || ' of ' || (request #>> '{decide,synthetic,name}') || '?)',
                CASE WHEN COALESCE(request ->> 'call', 'block') = 'block' THEN ' (within ' || (request #>> '{settings,dp.tau}') || ' of ' || (request #>> '{settings,dp.synthetic}') || '?)' END, '')
$$;
COMMENT ON FUNCTION dp._question(jsonb) IS 'A request in the words of SQL, for who asked it.';
REVOKE ALL ON FUNCTION dp._question(jsonb) FROM PUBLIC;

CREATE FUNCTION dp._spending() RETURNS TABLE (at timestamptz, request_id uuid, who name, dataset text, kind text, call text, mechanism text, charge jsonb, accounts text, question text, owed boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.at, l.request_id, CASE WHEN own.yes THEN l.who END, l.dataset, l.kind, CASE WHEN own.yes THEN l.call END, l.mechanism, l.charge,
         CASE WHEN own.yes THEN CASE l.scope ->> 'node' WHEN 'leaf' THEN 'partitions of ' || (l.scope ->> 'relation') WHEN 'relation' THEN 'relation ' || (l.scope ->> 'relation') ELSE 'root' END END,
         CASE WHEN own.yes THEN CASE WHEN l.kind = 'return' THEN 'back from ' || (l.request ->> 'of') WHEN l.kind = 'redact' THEN 'took the text out of ' || (SELECT string_agg(r.part ->> 'request_id', ', ') FROM jsonb_array_elements(l.request -> 'redacted') r(part)) WHEN l.kind IN ('import', 'declassified') THEN l.charge -> 0 ->> 'synthetic' WHEN l.kind IN ('failure', 'freeze', 'reopen') THEN NULL ELSE dp._question(l.request) END END,
         EXISTS (SELECT FROM dp.entitlement e WHERE e.request_id = l.request_id)
  FROM dp.ledger l CROSS JOIN LATERAL (SELECT l.who = dp._who() AS yes) own
  WHERE EXISTS (SELECT FROM dp.role_allotment r WHERE r.dataset = l.dataset AND r.role = dp._who()) OR pg_has_role(session_user, 'dp_admin', 'MEMBER')
$$;
COMMENT ON FUNCTION dp._spending() IS 'Rows of dp.spending for who asks.';
REVOKE ALL ON FUNCTION dp._spending() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._spending() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.spending AS SELECT * FROM dp._spending();
COMMENT ON VIEW dp.spending IS 'The ledger as you may see it: your own calls in full; of others mechanism, charge, time and an opaque request id (a literal in a question can be a secret). kind return: what was reserved for a fallback and not needed, given back. owed: the charge was committed and its answer never drawn; the same question, asked again, draws it for nothing.';
GRANT SELECT ON dp.spending TO dp_analyst, dp_gateway, dp_admin;
