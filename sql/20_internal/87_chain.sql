CREATE FUNCTION dp._chain(request_ids uuid[]) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET extra_float_digits = 1 AS $$
from pg_epsilon import entry
entry.links.link(request_ids)
$$;
COMMENT ON FUNCTION dp._chain(uuid[]) IS 'Links ledger rows that this transaction wrote by SQL into the chains of their datasets, whose heads stay locked until it ends: the last statement of what calls it, after the accounts were locked.';
REVOKE ALL ON FUNCTION dp._chain(uuid[]) FROM PUBLIC;

CREATE FUNCTION dp._chain_upgrade() RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET extra_float_digits = 1 AS $$
from pg_epsilon import entry
entry.links.link_earlier()
$$;
COMMENT ON FUNCTION dp._chain_upgrade() IS 'One link per dataset over everything older than the chain: a ledger row of kind upgrade, whose charge holds the number and the digest of all ledger rows and releases without a link. For the upgrade script, once.';
REVOKE ALL ON FUNCTION dp._chain_upgrade() FROM PUBLIC;
