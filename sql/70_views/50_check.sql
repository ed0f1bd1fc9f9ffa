CREATE FUNCTION dp._problems() RETURNS TABLE (severity text, object text, problem text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH RECURSIVE analysts AS (
    SELECT r.* FROM pg_roles r WHERE r.rolcanlogin AND NOT r.rolsuper AND pg_has_role(r.oid, 'dp_analyst', 'MEMBER')
    UNION ALL SELECT r.* FROM pg_roles r WHERE r.rolsuper AND EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid AND g.rolname = 'dp_analyst')
  ), protected AS (
    SELECT p.*, d.unit, c.relowner FROM dp.relation_policy p JOIN dp.dataset d ON d.name = p.dataset JOIN pg_class c ON c.oid = p.relation
  ), holders AS (
    -- roles that must not touch rows; a superuser is reported as such
    SELECT 'analyst' AS what, r.oid, r.rolname FROM analysts r WHERE NOT r.rolsuper
    UNION ALL SELECT 'the role', r.oid, r.rolname FROM pg_roles r
    WHERE (r.rolname IN ('dp_analyst', 'dp_gateway', 'dp_channel', 'dp_auth', 'dp_reader', 'dp_facade', 'dp_planner') OR r.rolname ~ '^dp_channel_[0-9]+$') AND NOT r.rolsuper
  ), extended AS MATERIALIZED (
    SELECT x.relation, x.whole FROM dp._extension_parts() x
  ), kin AS MATERIALIZED (
    SELECT i.inhrelid AS relation, i.inhparent AS whole FROM pg_inherits i UNION SELECT x.relation, x.whole FROM extended x WHERE x.whole IS NOT NULL
  ), parts AS (
    -- of what an extension made and nobody can tell: that of every protected relation
    (SELECT p.relation::oid AS part FROM protected p UNION SELECT x.relation FROM extended x WHERE x.whole IS NULL AND EXISTS (SELECT FROM protected))
    UNION SELECT k.relation FROM parts JOIN kin k ON k.whole = parts.part
  ), views AS (
    SELECT p.part AS relation, p.part AS view FROM parts p
    UNION SELECT u.relation, w.ev_class FROM views u
    JOIN pg_depend d ON d.refobjid = u.view AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_rewrite w ON w.oid = d.objid AND w.ev_class <> u.view
  )
  SELECT 'error', r.rolname::text, 'an analyst has an attribute that sees past the facade''s net or makes roles',
         'Take SUPERUSER, BYPASSRLS, CREATEROLE, CREATEDB and REPLICATION away, or give him another login.'
  FROM analysts r WHERE r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication
  UNION ALL
  SELECT 'error', r.rolname::text, format('an analyst is a member of %I', f.rolname), format('REVOKE %I FROM %I', f.rolname, r.rolname)
  FROM analysts r JOIN pg_roles f ON f.rolname IN ('dp_owner', 'dp_admin', 'dp_gateway', 'dp_channel', 'dp_auth', 'dp_facade', 'dp_reader', 'dp_timescaledb') OR f.rolname LIKE 'pg\_%'
  WHERE NOT r.rolsuper AND pg_has_role(r.oid, f.oid, 'MEMBER')
  UNION ALL
  SELECT 'error', p.part::regclass::text, format('%s %I holds %s on it', r.what, r.rolname, v.privilege),
         CASE WHEN p.part IN (SELECT x.relation FROM extended x)
           THEN format('REVOKE %s ON %s FROM %I, PUBLIC: an extension keeps rows of a protected relation there, or may do so. If a group gave it to him, from that.', v.privilege, p.part::regclass, r.rolname)
           ELSE 'REVOKE it: any privilege on a protected relation is an oracle (unique and foreign keys too).' END
  FROM parts p, holders r, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) v(privilege)
  WHERE has_table_privilege(r.oid, p.part, v.privilege)
     OR (v.privilege IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege(r.oid, p.part, v.privilege))
  UNION ALL
  SELECT 'error', v.view::regclass::text, format('%s %I can read a view over %s', r.what, r.rolname, v.relation), 'A view''s rows, estimates and errors leak: REVOKE SELECT on it.'
  FROM (SELECT view, relation::regclass FROM views WHERE view <> relation) v, holders r WHERE has_any_column_privilege(r.oid, v.view, 'SELECT')
  UNION ALL
  SELECT 'error', b.relation::text, 'it is published with its rows, and an extension keeps rows of a protected relation there, or may do so', format('CALL dp.unpublish(%L): what was shown stays shown.', b.relation)
  FROM dp.publication b WHERE b.kind = 'public' AND b.relation IN (SELECT p.part FROM parts p) AND b.relation IN (SELECT x.relation FROM extended x)
  UNION ALL
  SELECT 'error', p.oid::regprocedure::text, 'PUBLIC may execute a function that tells about rows', 'A superuser runs CALL dp.harden_catalog().'
  FROM pg_proc p WHERE p.oid IN (SELECT dp._leaky_functions()) AND EXISTS (SELECT FROM aclexplode(COALESCE(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)
  UNION ALL
  SELECT 'error', 'pg_catalog.pg_class', format('PUBLIC may read %s', string_agg(a.attname, ', ')), 'A superuser runs CALL dp.harden_catalog().'
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  WHERE c.oid = 'pg_class'::regclass AND a.attname IN ('reltuples', 'relpages', 'relallvisible', 'relfrozenxid', 'relminmxid', 'relfilenode')
    AND (EXISTS (SELECT FROM aclexplode(c.relacl) x WHERE x.grantee = 0 AND x.privilege_type = 'SELECT')
         OR EXISTS (SELECT FROM aclexplode(a.attacl) x WHERE x.grantee = 0 AND x.privilege_type = 'SELECT'))
  HAVING count(*) > 0
  UNION ALL
  SELECT 'error', c.oid::regclass::text, 'PUBLIC may read it', 'A superuser runs CALL dp.harden_catalog().'
  FROM pg_class c WHERE c.oid IN ('pg_shdepend'::regclass, 'pg_db_role_setting'::regclass, 'pg_largeobject_metadata'::regclass)
    AND EXISTS (SELECT FROM aclexplode(c.relacl) x WHERE x.grantee = 0)
  UNION ALL
  SELECT 'error', p.relation::text, 'the way to its privacy unit is broken', 'Restore the foreign keys of its unit_path, and the protection of every step, or unprotect it.'
  FROM protected p WHERE dp._unit_path_broken(p.relation)
  UNION ALL
  SELECT 'error', p.relation::text, format('it shares rows with %s, which is protected too', k), 'One row has one account: detach the part, or unprotect one of them.'
  FROM protected p CROSS JOIN LATERAL dp._protected_kin(p.relation) k
  UNION ALL
  SELECT 'warning', p.relation::text, 'rows could be moved between its partitions: every question is charged to the whole relation', format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "~dp_partition_key"; it must have no inheritance children', p.relation)
  FROM protected p WHERE p.partition_by IS NOT NULL AND NOT dp._partition_key_held(p.relation)
  UNION ALL
  SELECT 'warning', p.relation::text, format('subscription %I writes it, and it has partition accounts: the worker stops at the first update that moves a row to another partition', s.name),
         'Unprotect it and protect it without partition_by and grid, or end the subscription.'
  FROM protected p CROSS JOIN LATERAL dp._subscriptions(p.relation) s(name) WHERE p.partition_by IS NOT NULL
  UNION ALL
  SELECT 'warning', r.relation::text, format('it is not protected: the table that was protected under this name is now %s, and questions are answered from that', r.protected),
         format('CALL dp.unprotect(%L), then protect, describe and publish %s: its accounts stay.', r.protected, r.relation)
  FROM dp._renamed_away() r
  UNION ALL
  SELECT 'warning', l.name, format('it was published until it was dropped, at %s, and made again', l.at::timestamptz(0)),
         format('CALL dp.publish(%L, %L%s)', l.name, l.kind, CASE WHEN l.columns IS NOT NULL THEN format(', columns => %L', l.columns) ELSE '' END || CASE WHEN l.comments THEN ', comments => true' ELSE '' END)
  FROM dp.lost_publication l WHERE NOT EXISTS (SELECT FROM dp.publication b WHERE b.relation = to_regclass(l.name)) AND to_regclass(l.name) IS NOT NULL
  UNION ALL
  SELECT 'warning', f.oid::regprocedure::text, format('analysts may run it with the rights of %I, who can read protected rows', o.rolname), format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC and from analysts, unless it tells nothing about rows', f.oid::regprocedure)
  FROM pg_proc f JOIN pg_roles o ON o.oid = f.proowner
  WHERE f.prosecdef AND f.pronamespace NOT IN ('dp'::regnamespace, 'pg_catalog'::regnamespace, 'information_schema'::regnamespace) AND has_function_privilege('dp_analyst', f.oid, 'EXECUTE')
    AND has_schema_privilege('dp_analyst', f.pronamespace, 'USAGE') AND EXISTS (SELECT FROM protected p WHERE has_table_privilege(o.oid, p.relation, 'SELECT'))
  UNION ALL
  SELECT 'error', p.relation::text, 'dp_owner cannot read it', format('GRANT SELECT ON %s TO dp_owner', p.relation)
  FROM protected p WHERE NOT has_table_privilege('dp_owner', p.relation, 'SELECT')
  UNION ALL
  SELECT 'error', p.relation::text, 'row-level security would filter what the engine counts', 'Disable it on this relation, or unprotect it.'
  FROM protected p JOIN pg_class c ON c.oid = p.relation WHERE c.relrowsecurity
  UNION ALL
  SELECT 'error', p.relation::text, 'its foreign key joins it to another protected relation of a dataset with row units', 'Rows of joined relations describe the same people: use a dataset whose unit is a user.'
  FROM protected p JOIN pg_constraint k ON k.contype = 'f' AND p.relation IN (k.conrelid, k.confrelid)
  JOIN protected q ON q.relation IN (k.conrelid, k.confrelid) AND q.relation <> p.relation AND q.dataset = p.dataset WHERE p.unit = 'row' GROUP BY p.relation
  UNION ALL
  SELECT CASE WHEN h.strict THEN 'error' ELSE 'warning' END, h.relation::regclass::text, h.problem, h.hint FROM dp._half_declared_told(NULL) h
  UNION ALL
  SELECT 'error', d.name, concat(w.problem, ' (' || (f.detail ->> 'elsewhere') || ')'), format(w.hint, d.name)
  FROM dp.dataset d CROSS JOIN LATERAL dp._freeze_reasons(d.name) f
  JOIN (VALUES ('incarnation', 'its accounts are frozen: its ledger was restored, copied or promoted', 'CALL dp.confirm_ledger(%L, add_epsilon => what the original may have spent that this copy lacks)'),
               ('witness', 'its accounts are frozen: this ledger lacks charges that a proxy has seen', 'CALL dp.confirm_ledger(%L, add_epsilon => what was spent since the copy)'),
               ('failures', 'its accounts are frozen: questions failed in a way that nobody foresaw', 'Find the places in the server''s log, then CALL dp.reopen(%L)'),
               ('owner', 'its accounts are frozen: its owner stopped it', 'CALL dp.reopen(%L)')) w(reason, problem, hint) USING (reason)
  UNION ALL
  SELECT 'warning', 'dp.incarnation', format('the data directory is on %s, which makes inode numbers up: a copy of it that starts in another place is not noticed by itself', k.file_system),
         'Keep the data directory on a local disk''s own file system (ext4, xfs, btrfs, zfs), and write a new confirmation down after every restore: docs/backup.md.'
  FROM dp._disk() k WHERE k.inode IS NULL
  UNION ALL
  SELECT 'error', x.dataset, 'the accounts and the ledger disagree', 'Stop answering and restore the ledger from its export.'
  FROM dp._ledger_mismatch() x
  UNION ALL
  SELECT 'notice', 'dp_ledger', 'no witness: whether a copy of the whole disk was put back cannot be seen', 'Give the proxy a state directory (proxy.state_dir) on another disk: docs/operations.md'
  WHERE EXISTS (SELECT FROM dp.dataset) AND NOT EXISTS (SELECT FROM dp.chain_head h WHERE h.witnessed IS NOT NULL)
  UNION ALL
  SELECT 'error', t.dataset, t.problem, t.hint FROM jsonb_to_recordset(dp._engine('chain_problems', '{}')) AS t(dataset text, problem text, hint text)
  UNION ALL
  SELECT 'error', c.dataset, format('a question of %I is closed after an unforeseen failure (SQLSTATE %s)', c.who, c.sqlstate), format('Find %L in the server''s log, then CALL dp.reopen_question(%L)', c.place, c.request_id)
  FROM dp.closed_question c
  UNION ALL
  SELECT 'error', a.role::text, format('two unforeseen failures closed its allotment in dataset %s', a.dataset), format('Find their places in the server''s log, then CALL dp.reopen(%L)', a.dataset)
  FROM dp.closed_allotment a
  UNION ALL
  SELECT 'error', p.relation::text, format('an index or constraint of it calls %s, which PostgreSQL may run as dp_owner while it plans a question', f.oid::regprocedure),
         'Drop the index or constraint, or let a superuser read the function and own it.'
  FROM protected p
  CROSS JOIN LATERAL (SELECT p.relation AS oid UNION SELECT t.relid FROM pg_partition_tree(p.relation) t) part
  JOIN pg_depend d ON d.refclassid = 'pg_proc'::regclass
    AND (d.classid = 'pg_class'::regclass AND d.objid IN (SELECT x.indexrelid FROM pg_index x WHERE x.indrelid = part.oid)
      OR d.classid = 'pg_constraint'::regclass AND d.objid IN (SELECT k.oid FROM pg_constraint k WHERE k.conrelid = part.oid))
  JOIN pg_proc f ON f.oid = d.refobjid JOIN pg_roles r ON r.oid = f.proowner
  WHERE NOT r.rolsuper GROUP BY p.relation, f.oid
  UNION ALL
  SELECT 'error', f.ftrelid::regclass::text, 'planning a question asks another server for estimates: whether that fails is decided there, perhaps by rows',
         format('ALTER FOREIGN TABLE %s OPTIONS (%s use_remote_estimate ''false'')', f.ftrelid::regclass, CASE WHEN o.own IS NULL THEN 'ADD' ELSE 'SET' END)
  FROM (SELECT DISTINCT part FROM parts) p JOIN pg_foreign_table f ON f.ftrelid = p.part JOIN pg_foreign_server s ON s.oid = f.ftserver
  CROSS JOIN LATERAL (SELECT (SELECT x.option_value FROM pg_options_to_table(f.ftoptions) x WHERE x.option_name = 'use_remote_estimate') AS own,
                             (SELECT x.option_value FROM pg_options_to_table(s.srvoptions) x WHERE x.option_name = 'use_remote_estimate') AS usual) o
  WHERE COALESCE(o.own, o.usual, 'false')::boolean
  UNION ALL
  SELECT x.severity, x.object, x.problem, x.hint FROM dp._extension_problems() x
  UNION ALL
  SELECT 'error', t.object, t.problem, t.hint FROM dp._trigger_problems() t
  UNION ALL
  SELECT 'error', 'time zones', format('the server has no data of the time zone %s: questions that name one are refused', string_agg(z, ', ')),
         'apt-get install tzdata (PostgreSQL of Debian reads /usr/share/zoneinfo), then restart the server.'
  FROM dp._missing_zones(ARRAY['Europe/Berlin', 'America/New_York', 'Asia/Kolkata']) z HAVING count(*) > 0
  UNION ALL
  SELECT 'warning', p.relation::text, format('column %I is not declared: nobody can use it', a.attname), format('CALL dp.describe_column(%L, %L, ...)', p.relation, a.attname)
  FROM protected p JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum > 0 AND NOT a.attisdropped
  WHERE NOT EXISTS (SELECT FROM dp.column_policy c WHERE c.relation = p.relation AND c.attnum = a.attnum)
  UNION ALL
  SELECT 'error', s.synthetic::text, f.problem, COALESCE((SELECT format('CALL dp.drop_family(%L, %L): a published release goes with its family', o.dataset, o.name)
    FROM dp.family_publication o JOIN pg_class c ON c.relname = o.name AND c.relnamespace = to_regnamespace('dp_release') WHERE c.oid = s.synthetic), f.hint)
  FROM dp.synthetic s CROSS JOIN LATERAL (SELECT * FROM dp._synthetic_flaws(s.relation, s.synthetic, s.columns, s.weight)
                                          UNION ALL SELECT * FROM dp._synthetic_hidden(s.synthetic)) f
  UNION ALL
  SELECT 'warning', s.synthetic::text, format('the (%s, %s) guarantee of this synthetic table has no proof on record', trim_scale(s.epsilon), trim_scale(s.delta)),
         format('Drop it if nobody can name one: CALL dp.unregister_synthetic(%L); a proof is recorded as the argument proof of dp.register_synthetic', s.synthetic)
  FROM dp.synthetic s WHERE s.provenance = 'dp' AND COALESCE(s.proof, '') = ''
  UNION ALL
  SELECT 'notice', s.synthetic::text, format('it is declassified: what it shows of rows of %s is outside the guarantee', s.relation), 'dp.budget says so in relative_to, for ever.'
  FROM dp.synthetic s WHERE s.provenance = 'declassified'
  UNION ALL
  SELECT 'warning', t.object, t.problem, t.hint FROM dp._turbo_problems() t
  UNION ALL
  SELECT 'warning', k.object, k.problem, k.hint FROM dp._lock_problems() k
  UNION ALL
  SELECT 'warning', p.relation::text, format('it has about %s rows, and max_rows says at most %s', a.rows, p.max_rows),
         'Questions are still answered, but the bound on their size no longer holds: protect it with a larger max_rows.'
  FROM protected p CROSS JOIN LATERAL (SELECT dp._rows_about(p.relation) AS rows) a WHERE p.max_rows IS NOT NULL AND a.rows >= 0.75 * p.max_rows
  UNION ALL
  SELECT 'notice', 'dp.engine_limits', format('limits of one question, twice its bound: %s rows and %s bytes of a join, %s bytes collected; a relation without max_rows counts for %s rows',
         l.rows, l.bytes, l.memory, l.undeclared_rows), 'CALL dp.set_limits(rows => ..., bytes => ..., memory => ..., undeclared_rows => ...)'
  FROM dp._limits() l
  UNION ALL
  SELECT 'warning', b.relation::text, format('the facade has a schema of its own named %I: the proxy leaves this relation out', n.nspname), 'Publish it from a schema of another name (ALTER TABLE ... SET SCHEMA), or not.'
  FROM dp.publication b JOIN pg_class c ON c.oid = b.relation JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('dp_state', 'dp_null')
  UNION ALL
  SELECT 'warning', p.relation::text, 'it is protected but not published', format('CALL dp.publish(%L)', p.relation)
  FROM protected p WHERE NOT EXISTS (SELECT FROM dp.publication b WHERE b.relation = p.relation)
  UNION ALL
  SELECT 'warning', 'dp_ledger', 'the ledger channel logs in as dp_channel, as in 0.1.0: another private database of this cluster would break it', 'A superuser runs CALL dp.repair_channel().'
  FROM pg_user_mappings m WHERE m.srvname = 'dp_ledger' AND m.usename = 'dp_owner' AND 'user=dp_channel' = ANY (m.umoptions)
  UNION ALL
  SELECT 'warning', p.relation::text, 'max_rows_per_unit is not declared: only users can be counted, not rows', 'Protect it with max_rows_per_unit.'
  FROM protected p WHERE p.unit = 'user' AND p.max_rows_per_unit IS NULL
  UNION ALL
  SELECT 'error', d.datname, format('analyst %I may connect to this database of the same cluster: its catalogs show sizes and activity', r.rolname),
         format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC, and grant it to those who need it; or keep the private database in a cluster of its own', d.datname)
  FROM pg_database d, analysts r
  WHERE d.datallowconn AND NOT r.rolsuper AND d.datname <> current_database() AND has_database_privilege(r.oid, d.oid, 'CONNECT')
    AND NOT EXISTS (SELECT FROM aclexplode(d.datacl) a WHERE a.grantee = 'dp_analyst'::regrole AND a.privilege_type = 'TEMPORARY')
  UNION ALL
  SELECT 'warning', d.name, 'nobody has an allotment in it', format('CALL dp.allot(role, %L, epsilon => ...)', d.name)
  FROM dp.dataset d WHERE NOT EXISTS (SELECT FROM dp.role_allotment r WHERE r.dataset = d.name)
  UNION ALL
  SELECT 'warning', r.role::text, format('it has an allotment in %s but may not ask', string_agg(r.dataset, ', ' ORDER BY r.dataset)), format('GRANT dp_analyst TO %I, or take its allotments away: epsilon => 0', r.role)
  FROM dp.role_allotment r JOIN pg_roles o ON o.rolname = r.role
  WHERE r.epsilon > 0 AND r.role <> 'dp_planner' AND NOT pg_has_role(o.oid, 'dp_analyst', 'MEMBER') GROUP BY r.role
  UNION ALL
  SELECT 'notice', string_agg(d.name, ', ' ORDER BY d.name), 'a person whose rows are in several datasets loses the sum of their budgets', 'Put relations about the same people into one dataset.'
  FROM dp.dataset d HAVING count(*) > 1
$$;
COMMENT ON FUNCTION dp._problems() IS 'Rows of dp.check().';
REVOKE ALL ON FUNCTION dp._problems() FROM PUBLIC;

CREATE FUNCTION dp.check() RETURNS TABLE (severity text, object text, problem text, hint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._require_admin('dp.check');
  RETURN QUERY SELECT 'error', a.object, a.problem, a.hint FROM dp._attempts() a;
  BEGIN
    RETURN QUERY SELECT p.severity, p.object, p.problem, p.hint FROM dp._problems() p
      ORDER BY array_position(ARRAY['error', 'warning', 'notice'], p.severity), p.object, p.problem;
  EXCEPTION WHEN OTHERS THEN
    -- some of it runs in Python: without the package that would hide what was just found
    RETURN QUERY SELECT 'error', 'dp.check()', format('what is undeclared or leaks cannot be looked at: SQLSTATE %s', SQLSTATE),
      'Mend what keeps every question from being answered, and run it again; if nothing does, the server''s log has a line of that time.';
  END;
END $$;
COMMENT ON FUNCTION dp.check() IS 'What does not work, by trying (the channel, the engine and all that it needs), and what is undeclared or leaks: grants on raw tables, open catalogs, analysts with dangerous attributes, missing declarations, frozen or inconsistent ledgers. No row with severity error: ready.';
REVOKE ALL ON FUNCTION dp.check() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.check() TO dp_admin;
