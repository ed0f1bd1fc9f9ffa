CREATE FUNCTION dp._turbo_views() RETURNS TABLE (relation text, attributes name[], bins bigint, alpha numeric, beta numeric, settings jsonb, partition text, scale numeric, sealed boolean, as_of timestamptz, rows_removed timestamptz, counts_kept boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('%I.%I', n.nspname, c.relname), v.attributes, (SELECT round(exp(sum(ln(s::numeric))))::bigint FROM unnest(v.sizes) s), v.alpha, v.beta, v.settings, p.leaf_key, p.scale, p.sealed, p.as_of::timestamptz(0), p.rows_removed::timestamptz(0), p.counts_kept
  FROM dp.turbo_view v JOIN pg_class c ON c.oid = v.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN dp.turbo_partition p ON p.view = v.view
  WHERE EXISTS (SELECT FROM dp.publication b WHERE b.relation = v.relation) OR pg_has_role(session_user, 'dp_admin', 'MEMBER')
  ORDER BY 1, p.part
$$;
COMMENT ON FUNCTION dp._turbo_views() IS 'Rows of dp.turbo.';
REVOKE ALL ON FUNCTION dp._turbo_views() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._turbo_views() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.turbo AS SELECT * FROM dp._turbo_views();
COMMENT ON VIEW dp.turbo IS 'Where questions with dp.alpha and dp.beta are answered by Turbo: attributes, accuracy, partitions (NULL: the whole relation) with their public number of rows, as of when, and since when the rows are removed (dp.retain), with or without their counts.';
GRANT SELECT ON dp.turbo TO dp_analyst, dp_gateway, dp_admin;
