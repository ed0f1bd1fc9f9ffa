CREATE FUNCTION dp._freeze_reasons(of_dataset text) RETURNS TABLE (reason text, since timestamptz, detail jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  elsewhere text := (SELECT dp._elsewhere(d.incarnation) FROM dp.dataset d WHERE d.name = of_dataset);
BEGIN
  -- PL/pgSQL keeps its plans: every charge asks
  IF elsewhere IS NOT NULL THEN
    RETURN QUERY SELECT 'incarnation', NULL::timestamptz, jsonb_build_object('elsewhere', elsewhere);
  END IF;
  RETURN QUERY SELECT f.reason, f.since, f.detail FROM dp.freeze f WHERE f.dataset = of_dataset AND (elsewhere IS NULL OR f.reason <> 'incarnation') ORDER BY f.reason;
END $$;
COMMENT ON FUNCTION dp._freeze_reasons(text) IS 'Why a dataset pays for nothing and draws nothing, now: the rows of dp.freeze, and an incarnation that differs. No row: it is not frozen.';
REVOKE ALL ON FUNCTION dp._freeze_reasons(text) FROM PUBLIC;

CREATE FUNCTION dp._is_frozen(of_dataset text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN EXISTS (SELECT FROM dp._freeze_reasons(of_dataset));
END $$;
COMMENT ON FUNCTION dp._is_frozen(text) IS 'Whether a dataset is frozen for any reason.';
REVOKE ALL ON FUNCTION dp._is_frozen(text) FROM PUBLIC;

CREATE FUNCTION dp._void_entitlements(of_dataset text) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH ended AS (DELETE FROM dp.entitlement e WHERE e.dataset = of_dataset OR of_dataset IS NULL RETURNING 1)
  SELECT count(*) FROM ended
$$;
COMMENT ON FUNCTION dp._void_entitlements(text) IS 'Ends every entitlement of a dataset, or of all (NULL): at any freeze and at any confirmation of the ledger, because a copy would draw them a second time. Returns how many. The charges stay.';
REVOKE ALL ON FUNCTION dp._void_entitlements(text) FROM PUBLIC;
