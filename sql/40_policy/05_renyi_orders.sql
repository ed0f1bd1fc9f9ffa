CREATE FUNCTION dp._renyi_orders(epsilon numeric, delta_rdp numeric, orders numeric[]) RETURNS numeric[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT array_agg(u.v::numeric ORDER BY u.i)
  FROM jsonb_array_elements_text(dp._engine('renyi_orders', jsonb_build_object('epsilon', epsilon::text, 'delta_rdp', delta_rdp::text, 'orders', orders::text[]))) WITH ORDINALITY u(v, i)
$$;
COMMENT ON FUNCTION dp._renyi_orders(numeric, numeric, numeric[]) IS 'The grid of Rényi orders of a new dataset, checked: at least one order must have a positive cap (composition.md 3.4).';
REVOKE ALL ON FUNCTION dp._renyi_orders(numeric, numeric, numeric[]) FROM PUBLIC;
