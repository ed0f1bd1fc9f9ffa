CREATE FUNCTION dp._policy_drops_with_object() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  lost record;
  changed integer;
BEGIN
  SELECT p.relation, d.object_identity INTO lost
  FROM pg_event_trigger_dropped_objects() d JOIN dp.relation_policy p ON p.relation = d.objid
  WHERE d.classid = 'pg_class'::regclass AND d.objsubid > 0 AND (d.address_names[3] IN (p.unit_column, p.unit_path[1], p.partition_by) OR d.address_names[3] = ANY (p.other_units))
    AND EXISTS (SELECT FROM pg_class c WHERE c.oid = p.relation) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('%s defines the privacy unit or partitions of a protected relation', lost.object_identity),
      HINT = 'CALL dp.unprotect(relation) first: its accounts stay.';
  END IF;
  SELECT d.object_identity, d.address_names[3] AS name INTO lost FROM pg_event_trigger_dropped_objects() d
  CROSS JOIN LATERAL to_regclass(format('%I.%I', d.address_names[1], d.address_names[2])) AS t(relation)
  JOIN dp.relation_policy p ON p.partition_by IS NOT NULL AND p.relation IN (
    SELECT t.relation UNION ALL SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = t.relation AND dp._hypertable(i.inhparent))
  WHERE d.classid = 'pg_trigger'::regclass AND (d.address_names[3] = '~dp_partition_key'
    OR d.address_names[3] IN ('~dp_sealed', '~dp_sealed_replica') AND EXISTS (SELECT FROM dp.turbo_view v WHERE v.relation = p.relation AND v.partitioned)) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('trigger %s keeps %s', lost.object_identity, CASE lost.name WHEN '~dp_partition_key' THEN 'rows in their partition accounts' ELSE 'sealed partitions sealed' END),
      HINT = CASE lost.name WHEN '~dp_partition_key' THEN 'CALL dp.unprotect(relation) first: its accounts stay.' ELSE 'CALL dp.reopen_partition(relation, value) before late rows are loaded, or dp.disable_turbo(relation).' END;
  END IF;
  WITH gone AS (SELECT objid, objsubid, object_identity FROM pg_event_trigger_dropped_objects() WHERE classid = 'pg_class'::regclass),
       a AS (DELETE FROM dp.column_policy c USING gone g WHERE c.relation = g.objid AND g.objsubid IN (0, c.attnum) RETURNING 1),
       b AS (DELETE FROM dp.publication p USING gone g WHERE p.relation = g.objid AND g.objsubid = 0 RETURNING g.object_identity, p.kind, p.columns, p.comments),
       h AS (INSERT INTO dp.lost_publication (name, kind, columns, comments) SELECT * FROM b
             ON CONFLICT ON CONSTRAINT lost_publication_pkey DO UPDATE SET kind = EXCLUDED.kind, columns = EXCLUDED.columns, comments = EXCLUDED.comments, at = EXCLUDED.at),
       i AS (DELETE FROM dp.part p USING gone g WHERE p.relation = g.objid AND g.objsubid = 0),
       c AS (DELETE FROM dp.relation_policy p USING gone g WHERE p.relation = g.objid AND g.objsubid = 0 RETURNING 1),
       -- synthetic rows whose relation is gone are not shown on as if they were an ordinary public table
       e AS (DELETE FROM dp.publication p USING gone g, dp.synthetic s WHERE s.relation = g.objid AND g.objsubid = 0 AND p.relation = s.synthetic
             AND NOT EXISTS (SELECT FROM gone o WHERE o.objid = s.synthetic AND o.objsubid = 0) RETURNING 1),
       f AS (DELETE FROM dp.synthetic s USING gone g WHERE g.objid IN (s.synthetic, s.relation) AND g.objsubid = 0 RETURNING 1),
       d AS (DELETE FROM dp.relation_identity p USING gone g WHERE p.relation = g.objid AND g.objsubid = 0)
  SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) + (SELECT count(*) FROM c) + (SELECT count(*) FROM e) + (SELECT count(*) FROM f) INTO changed;
  IF changed > 0 THEN
    PERFORM dp._bump_policy();
  END IF;
END $$;
COMMENT ON FUNCTION dp._policy_drops_with_object() IS 'Policy goes with its relation or column; accounts and ledger stay.';
REVOKE ALL ON FUNCTION dp._policy_drops_with_object() FROM PUBLIC;
CREATE EVENT TRIGGER dp_policy_drops_with_object ON sql_drop EXECUTE FUNCTION dp._policy_drops_with_object();
ALTER EVENT TRIGGER dp_policy_drops_with_object ENABLE ALWAYS;
