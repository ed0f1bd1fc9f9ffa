CREATE PROCEDURE dp.protect(
  relation          regclass,
  dataset           text,
  unit_column       name DEFAULT NULL,
  unit_path         name[] DEFAULT NULL,
  max_rows_per_unit integer DEFAULT NULL,
  max_rows          bigint DEFAULT NULL,
  scale             numeric DEFAULT NULL,
  partition_by      name DEFAULT NULL,
  grid              jsonb DEFAULT NULL,
  other_units       name[] DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._protect(relation, dataset, unit_column, unit_path, max_rows_per_unit, max_rows, scale, partition_by, grid, other_units);
  EXECUTE format('GRANT SELECT ON TABLE %s TO dp_owner', relation);
  EXECUTE format('REVOKE ALL ON TABLE %s FROM dp_reader', relation);
  IF NOT has_schema_privilege('dp_owner', (SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation), 'USAGE') THEN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO dp_owner', (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation));
  END IF;
  IF partition_by IS NOT NULL THEN
    -- BEFORE triggers fire in the order of their names: none of the table's own comes after this one
    EXECUTE format('CREATE OR REPLACE TRIGGER "~dp_partition_key" BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION dp._partition_key_immutable(%L)', relation, partition_by);
    -- for replication's workers too; a hypertable's chunks keep what TimescaleDB gave them
    IF NOT dp._hypertable(relation) THEN
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "~dp_partition_key"', relation);
    END IF;
  END IF;
END $$;
COMMENT ON PROCEDURE dp.protect(regclass, text, name, name[], integer, bigint, numeric, name, jsonb, name[]) IS
  'Puts a base table under a dataset''s budget. unit_column/unit_path say how a row reaches its user; max_rows_per_unit (kappa), max_rows and scale are declared bounds; partition_by with grid gives leaf accounts; other_units names further columns that hold unit keys, if a row belongs to several units (such a relation is open to R2T by linear programming only). Runs as the caller: only the owner can grant SELECT to dp_owner.';
REVOKE ALL ON PROCEDURE dp.protect(regclass, text, name, name[], integer, bigint, numeric, name, jsonb, name[]) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.protect(regclass, text, name, name[], integer, bigint, numeric, name, jsonb, name[]) TO dp_admin;
