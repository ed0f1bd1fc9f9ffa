CREATE FUNCTION dp._renyi_orders(epsilon numeric, delta_rdp numeric, orders numeric[]) RETURNS numeric[]
LANGUAGE plpython3u IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
from pg_epsilon import entry
return entry.renyi_orders(epsilon, delta_rdp, orders)
$$;
COMMENT ON FUNCTION dp._renyi_orders(numeric, numeric, numeric[]) IS 'The grid of Rényi orders of a new dataset, checked: at least one order must have a positive cap (composition.md 3.4).';
REVOKE ALL ON FUNCTION dp._renyi_orders(numeric, numeric, numeric[]) FROM PUBLIC;
