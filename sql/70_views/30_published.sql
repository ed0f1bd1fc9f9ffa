CREATE FUNCTION dp._published() RETURNS TABLE (relation text, kind text, dataset text, unit text, column_name name, type text, declared text, bounds text, declared_values text[], nullable boolean, copy_of text, provenance text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('%I.%I', n.nspname, c.relname), CASE WHEN s.synthetic IS NULL THEN p.kind ELSE 'synthetic' END, r.dataset, d.unit, a.attname, format_type(a.atttypid, a.atttypmod), cp.kind,
         CASE WHEN cp.kind = 'bounds' THEN format('[%s, %s]%s', cp.lower, cp.upper, ' step ' || cp.resolution) END, COALESCE(cp.domain, cp.edges), cp.nullable,
         (SELECT format('%I.%I', o.nspname, t.relname) FROM pg_class t JOIN pg_namespace o ON o.oid = t.relnamespace WHERE t.oid = s.relation AND EXISTS (SELECT FROM dp.publication q WHERE q.relation = t.oid)), s.provenance
  FROM dp.publication p JOIN pg_class c ON c.oid = p.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum > 0 AND NOT a.attisdropped AND (p.columns IS NULL OR a.attname = ANY (p.columns))
  LEFT JOIN dp.relation_policy r ON r.relation = p.relation LEFT JOIN dp.dataset d ON d.name = r.dataset
  LEFT JOIN dp.column_policy cp ON cp.relation = p.relation AND cp.attnum = a.attnum
  LEFT JOIN dp.synthetic s ON s.synthetic = p.relation
  ORDER BY 1, a.attnum
$$;
COMMENT ON FUNCTION dp._published() IS 'Rows of dp.published.';
REVOKE ALL ON FUNCTION dp._published() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._published() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.published AS SELECT * FROM dp._published();
COMMENT ON VIEW dp.published IS 'What can be asked about: published relations, their columns, and what is declared of each (declared NULL: closed). kind synthetic: a table of synthetic rows that is a copy_of a protected relation, and where it came from.';
GRANT SELECT ON dp.published TO dp_analyst, dp_gateway, dp_admin;
