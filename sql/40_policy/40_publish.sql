CREATE FUNCTION dp._publish(relation regclass, kind text, columns name[], comments boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  protected boolean := EXISTS (SELECT FROM dp.relation_policy p WHERE p.relation = _publish.relation);
  a_view    boolean := (SELECT c.relkind = 'v' FROM pg_class c WHERE c.oid = relation);
BEGIN
  PERFORM dp._require_owner(relation, 'dp.publish');
  IF kind IS NULL OR kind NOT IN ('protected', 'public') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'kind must be ''protected'' or ''public''', HINT = '''protected'' shows a table''s shape, ''public'' its rows too.';
  END IF;
  IF kind = 'protected' AND NOT protected AND NOT a_view THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not protected', relation), HINT = 'CALL dp.protect(relation, dataset) first, or publish a table without people as kind => ''public''.';
  END IF;
  IF kind = 'public' AND (protected OR (SELECT c.relkind NOT IN ('r', 'p') FROM pg_class c WHERE c.oid = relation)
      OR EXISTS (SELECT FROM dp._protected_kin(relation)) OR EXISTS (SELECT FROM dp._protected_by_extension(relation))
      OR EXISTS (SELECT FROM dp._extension_objects() o WHERE o.oid = relation AND o.closed AND o.kind = 'TABLE')) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s cannot be public', relation), HINT = 'Only base tables that are not protected, and not part of a protected one or of an extension that keeps rows of one, can be published with their rows.';
  END IF;
  IF kind = 'public' AND EXISTS (SELECT FROM dp.part h WHERE h.relation = _publish.relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s cannot be public: it was a partition of %s', relation, (SELECT h.relation_key FROM dp.part h WHERE h.relation = _publish.relation)),
      HINT = 'Its rows are those of protected units, and answers were given about them. What must be shown belongs into a table of its own.';
  END IF;
  IF EXISTS (SELECT FROM unnest(columns) u(c) WHERE c IS NULL OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = c AND a.attnum > 0 AND NOT a.attisdropped)) THEN
    RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = 'columns names a column that does not exist', HINT = 'Leave columns out to publish them all.';
  END IF;
  INSERT INTO dp.publication (relation, kind, columns, comments) VALUES (relation, kind, columns, COALESCE(comments, false))
  ON CONFLICT ON CONSTRAINT publication_pkey DO UPDATE SET kind = EXCLUDED.kind, columns = EXCLUDED.columns, comments = EXCLUDED.comments;
  -- A view's text is public by its publication; the proxy expands it, so everything that it reads must be public too.
  IF a_view AND NOT EXISTS (SELECT FROM jsonb_array_elements(dp.facade_definition() -> 'relations') r, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.oid = relation AND r ->> 'schema' = n.nspname AND r ->> 'name' = c.relname AND r ->> 'view' IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('view %s reads what is not published', relation),
      HINT = 'Publish every relation and column that it reads first, and the view with all its columns; functions and types of your own cannot be in it.';
  END IF;
  DELETE FROM dp.lost_publication l WHERE l.name = (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
  PERFORM dp._synthetics_follow();
  PERFORM dp._warn_half_declared(relation);
  PERFORM dp._bump_policy();
END $$;
COMMENT ON FUNCTION dp._publish(regclass, text, name[], boolean) IS 'Checks and records a publication; dp.publish adds the grant that only the table''s owner can give.';
REVOKE ALL ON FUNCTION dp._publish(regclass, text, name[], boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._publish(regclass, text, name[], boolean) TO dp_admin;

CREATE PROCEDURE dp.publish(relation regclass, kind text DEFAULT 'protected', columns name[] DEFAULT NULL, comments boolean DEFAULT false)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  reader text;
BEGIN
  PERFORM dp._publish(relation, kind, columns, comments);
  IF kind = 'public' THEN
    -- dp_reader shows its rows on the facade, the engine reads them for joins and sub-queries
    FOREACH reader IN ARRAY ARRAY['dp_reader', 'dp_owner'] LOOP
      EXECUTE format('GRANT SELECT ON TABLE %s TO %I', relation, reader);
      IF NOT has_schema_privilege(reader, (SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation), 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation), reader);
      END IF;
    END LOOP;
  END IF;
END $$;
COMMENT ON PROCEDURE dp.publish(regclass, text, name[], boolean) IS
  'Shows a relation to analysts: ''protected'' its shape only (rows are answered through dp_*), ''public'' its rows too. Runs as the caller: only the owner can grant SELECT to dp_reader and dp_owner.';
REVOKE ALL ON PROCEDURE dp.publish(regclass, text, name[], boolean) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.publish(regclass, text, name[], boolean) TO dp_admin;

CREATE FUNCTION dp._unpublish(relation regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  forgotten boolean;
BEGIN
  PERFORM dp._require_owner(relation, 'dp.unpublish');
  IF EXISTS (SELECT FROM dp.synthetic s WHERE s.synthetic = _unpublish.relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is registered as a synthetic table', relation), HINT = 'CALL dp.unregister_synthetic(synthetic): that hides it too.';
  END IF;
  DELETE FROM dp.lost_publication l WHERE l.name = (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
  forgotten := FOUND;
  DELETE FROM dp.publication p WHERE p.relation = _unpublish.relation;
  IF NOT FOUND AND NOT forgotten THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not published', relation), HINT = 'Nothing to do.';
  END IF;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON FUNCTION dp._unpublish(regclass) IS 'Forgets a publication; dp.unpublish adds the REVOKE that only the table''s owner can do.';
REVOKE ALL ON FUNCTION dp._unpublish(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._unpublish(regclass) TO dp_admin;

CREATE PROCEDURE dp.unpublish(relation regclass)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._unpublish(relation);
  EXECUTE format('REVOKE ALL ON TABLE %s FROM dp_reader', relation);
END $$;
COMMENT ON PROCEDURE dp.unpublish(regclass) IS 'Hides a relation from analysts again; what was answered stays answered. Runs as the caller: only the owner can take SELECT from dp_reader.';
REVOKE ALL ON PROCEDURE dp.unpublish(regclass) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.unpublish(regclass) TO dp_admin;
