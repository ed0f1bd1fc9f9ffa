CREATE FUNCTION dp._policy_follows_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  lost record;
BEGIN
  IF NOT EXISTS (SELECT FROM dp.relation_policy) THEN
    RETURN;
  END IF;
  FOR lost IN SELECT r.relation, r.protected FROM dp._renamed_away() r
              WHERE r.relation IN (SELECT d.objid FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0) LOOP
    RAISE WARNING '% is not protected: the table that was protected under this name is now %', lost.relation, lost.protected
      USING HINT = format('Questions are answered from %s still. CALL dp.unprotect(%L), then protect, describe and publish %s: its accounts stay.', lost.protected, lost.protected, lost.relation);
  END LOOP;
  IF NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d
                 WHERE NOT dp._is_chunk(d.objid) AND (EXISTS (SELECT FROM dp._protected_kin(d.objid))
                    OR EXISTS (SELECT FROM pg_inherits h JOIN dp.publication b ON b.relation = h.inhparent WHERE h.inhrelid = d.objid)
                    OR (TG_TAG <> 'CREATE TABLE' AND (d.object_type NOT IN ('table', 'table column') OR d.classid <> 'pg_class'::regclass
                        OR d.objid IN (SELECT relation FROM dp.relation_policy UNION SELECT relation FROM dp.publication))))) THEN
    RETURN;
  END IF;
  -- not while a dump is being restored (its datasets are frozen): numbers differ there, names hold until dp.confirm_ledger
  UPDATE dp.turbo_view v SET attributes = (
    SELECT array_agg(COALESCE(a.attname, u.n) ORDER BY u.i) FROM unnest(v.attributes) WITH ORDINALITY u(n, i)
    LEFT JOIN dp.column_policy cp ON cp.relation = v.relation AND cp.attname = u.n
    LEFT JOIN pg_attribute a ON a.attrelid = cp.relation AND a.attnum = cp.attnum AND NOT a.attisdropped)
  FROM dp.relation_policy p, dp.dataset d WHERE p.relation = v.relation AND d.name = p.dataset AND NOT dp._frozen(d.incarnation)
    AND EXISTS (SELECT FROM dp.column_policy cp JOIN pg_attribute a ON a.attrelid = cp.relation AND a.attnum = cp.attnum AND NOT a.attisdropped
                WHERE cp.relation = v.relation AND a.attname <> cp.attname);
  UPDATE dp.column_policy cp SET attname = a.attname FROM pg_attribute a, dp.relation_policy p, dp.dataset d
  WHERE a.attrelid = cp.relation AND a.attnum = cp.attnum AND NOT a.attisdropped AND a.attname <> cp.attname
    AND p.relation = cp.relation AND d.name = p.dataset AND NOT dp._frozen(d.incarnation);
  SELECT p.relation, c.name INTO lost
  FROM dp.relation_policy p, unnest(ARRAY[p.unit_column, p.unit_path[1], p.partition_by] || p.other_units) AS c(name)
  WHERE c.name IS NOT NULL
    AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p.relation AND a.attname = c.name AND NOT a.attisdropped) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('column %I of %s defines its privacy unit or partitions and cannot be renamed', lost.name, lost.relation),
      HINT = 'CALL dp.unprotect(relation) first, rename, and protect it again: its accounts stay.';
  END IF;
  SELECT b.relation, k.relation AS whole INTO lost FROM dp.publication b CROSS JOIN LATERAL dp._protected_kin(b.relation) k(relation) WHERE b.kind = 'public' LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('%s is published with its rows and cannot hold rows of %s, which is protected', lost.relation, lost.whole),
      HINT = format('CALL dp.unpublish(%L) first, if nobody was shown its rows; else load them into a table of their own.', lost.relation);
  END IF;
  INSERT INTO dp.part (relation, relation_key)
  SELECT i.inhrelid, p.relation_key FROM pg_event_trigger_ddl_commands() d
  JOIN pg_inherits i ON d.objid IN (i.inhrelid, i.inhparent) AND NOT dp._is_chunk(i.inhrelid)
  JOIN dp.relation_policy p ON p.relation IN (SELECT dp._protected_kin(i.inhrelid))
  WHERE d.classid = 'pg_class'::regclass ON CONFLICT DO NOTHING;
  PERFORM dp._synthetics_follow();
  PERFORM dp._bump_policy();
END $$;
COMMENT ON FUNCTION dp._policy_follows_ddl() IS 'Policy follows renamed columns and tells the proxies that the shape changed.';
REVOKE ALL ON FUNCTION dp._policy_follows_ddl() FROM PUBLIC;
CREATE EVENT TRIGGER dp_policy_follows_ddl ON ddl_command_end
  WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN')
  EXECUTE FUNCTION dp._policy_follows_ddl();
ALTER EVENT TRIGGER dp_policy_follows_ddl ENABLE ALWAYS;
