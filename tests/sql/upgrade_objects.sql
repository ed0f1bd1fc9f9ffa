-- name, value: every object of the extension and of its install script, with all that ALTER and GRANT can change.
-- pg_attver: a counter that some builds of PostgreSQL keep among a column's options.
WITH acl_of (class, object, sub, acl) AS (
  SELECT 'pg_class'::regclass, c.oid, 0, COALESCE(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))
  FROM pg_class c
  UNION ALL SELECT 'pg_class'::regclass, a.attrelid, a.attnum, a.attacl FROM pg_attribute a WHERE a.attacl IS NOT NULL
  UNION ALL SELECT 'pg_proc'::regclass, p.oid, 0, COALESCE(p.proacl, acldefault('f', p.proowner)) FROM pg_proc p
  UNION ALL SELECT 'pg_namespace'::regclass, n.oid, 0, COALESCE(n.nspacl, acldefault('n', n.nspowner)) FROM pg_namespace n
  UNION ALL SELECT 'pg_database'::regclass, d.oid, 0, COALESCE(d.datacl, acldefault('d', d.datdba)) FROM pg_database d
  UNION ALL SELECT 'pg_foreign_server'::regclass, s.oid, 0, COALESCE(s.srvacl, acldefault('S', s.srvowner)) FROM pg_foreign_server s
), granted AS (
  SELECT o.class, o.object, o.sub, string_agg(f.said, ', ' ORDER BY f.said) AS acl
  FROM acl_of o, aclexplode(o.acl) a,
    LATERAL (SELECT concat_ws(' ', COALESCE(NULLIF(a.grantee, 0)::regrole::text, 'PUBLIC'), a.privilege_type, CASE WHEN a.is_grantable THEN '*' END) AS said) f
  GROUP BY 1, 2, 3
), initial AS (
  -- what pg_dump leaves out; owners apart: a fresh one remembers who was it before ALTER … OWNER
  SELECT i.classoid AS class, i.objoid AS object, i.objsubid AS sub, string_agg(f.said, ', ' ORDER BY f.said) AS acl
  FROM pg_init_privs i, aclexplode(i.initprivs) a,
    LATERAL (SELECT concat_ws(' ', COALESCE(NULLIF(a.grantee, 0)::regrole::text, 'PUBLIC'), a.privilege_type, CASE WHEN a.is_grantable THEN '*' END) AS said) f
  WHERE i.objoid < 16384 OR a.grantee <> a.grantor GROUP BY 1, 2, 3
), ours AS (
  SELECT d.classid AS class, d.objid AS object FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
  WHERE e.extname = 'pg_epsilon' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
), tables AS (
  SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'dp'
)
SELECT 'member ' || pg_describe_object(o.class, o.object, 0) AS name, '' AS value FROM ours o WHERE o.class <> 'pg_type'::regclass
UNION ALL
SELECT 'extension', concat_ws('; ', e.extversion, e.extrelocatable, e.extnamespace::regnamespace, pg_get_userbyid(e.extowner)) FROM pg_extension e WHERE e.extname = 'pg_epsilon'
UNION ALL
SELECT 'dumped ' || c.relid::regclass, COALESCE(c.condition, '') FROM pg_extension e, unnest(e.extconfig, e.extcondition) c(relid, condition) WHERE e.extname = 'pg_epsilon'
UNION ALL
SELECT 'relation ' || c.oid::regclass, concat_ws('; ', c.relkind, c.relpersistence, pg_get_userbyid(c.relowner), c.reloptions, c.relrowsecurity, c.relforcerowsecurity, c.relreplident,
         (SELECT m.amname FROM pg_am m WHERE m.oid = c.relam), obj_description(c.oid, 'pg_class'), g.acl, 'at first: ' || i.acl, pg_get_viewdef(c.oid),
         (SELECT format_type(s.seqtypid, NULL) || ' ' || concat_ws(' ', s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle) FROM pg_sequence s WHERE s.seqrelid = c.oid))
FROM tables c LEFT JOIN granted g ON g.class = 'pg_class'::regclass AND g.object = c.oid AND g.sub = 0
LEFT JOIN initial i ON i.class = 'pg_class'::regclass AND i.object = c.oid AND i.sub = 0 WHERE c.relkind NOT IN ('i', 'I')
UNION ALL
SELECT format('column %s.%I', c.oid::regclass, a.attname), concat_ws('; ', (SELECT count(*) FROM pg_attribute b WHERE b.attrelid = c.oid AND b.attnum BETWEEN 1 AND a.attnum AND NOT b.attisdropped),
         format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, a.attstorage, a.attcompression, a.attcollation::regcollation, a.attstattarget, (SELECT array_agg(o ORDER BY o) FROM unnest(a.attoptions) o WHERE o !~ '^pg_attver='),
         pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum), g.acl)
FROM tables c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN granted g ON g.class = 'pg_class'::regclass AND g.object = c.oid AND g.sub = a.attnum WHERE c.relkind NOT IN ('i', 'I')
UNION ALL
SELECT format('constraint %s %I', c.oid::regclass, k.conname), concat_ws('; ', pg_get_constraintdef(k.oid), k.condeferrable, k.condeferred, k.convalidated, k.conislocal, obj_description(k.oid, 'pg_constraint'))
FROM tables c JOIN pg_constraint k ON k.conrelid = c.oid
UNION ALL
SELECT 'index ' || x.indexrelid::regclass, concat_ws('; ', pg_get_indexdef(x.indexrelid), x.indisvalid, x.indisreplident, x.indisclustered, obj_description(x.indexrelid, 'pg_class'))
FROM tables c JOIN pg_index x ON x.indrelid = c.oid
UNION ALL
SELECT format('trigger %s %I', c.oid::regclass, t.tgname), concat_ws('; ', pg_get_triggerdef(t.oid), t.tgenabled, obj_description(t.oid, 'pg_trigger')) FROM tables c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal
UNION ALL
SELECT format('rule %s %I', c.oid::regclass, r.rulename), concat_ws('; ', r.ev_enabled, pg_get_ruledef(r.oid)) FROM tables c JOIN pg_rewrite r ON r.ev_class = c.oid
UNION ALL
SELECT format('policy %s %I', c.oid::regclass, p.polname), concat_ws('; ', p.polcmd, p.polpermissive, p.polroles::regrole[], pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid)) FROM tables c JOIN pg_policy p ON p.polrelid = c.oid
UNION ALL
SELECT 'event trigger ' || t.evtname, concat_ws('; ', t.evtevent, t.evttags, t.evtenabled, t.evtfoid::regprocedure, pg_get_userbyid(t.evtowner), obj_description(t.oid, 'pg_event_trigger')) FROM pg_event_trigger t
UNION ALL
SELECT 'routine ' || p.oid::regprocedure, concat_ws('; ', pg_get_functiondef(p.oid), pg_get_userbyid(p.proowner), obj_description(p.oid, 'pg_proc'), g.acl, 'at first: ' || i.acl)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'dp'
LEFT JOIN granted g ON g.class = 'pg_proc'::regclass AND g.object = p.oid LEFT JOIN initial i ON i.class = 'pg_proc'::regclass AND i.object = p.oid
UNION ALL
SELECT 'type ' || t.oid::regtype, concat_ws('; ', t.typtype, t.typnotnull, t.typdefault, format_type(t.typbasetype, t.typtypmod), obj_description(t.oid, 'pg_type'))
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace AND n.nspname = 'dp'
UNION ALL
SELECT 'schema ' || n.nspname, concat_ws('; ', pg_get_userbyid(n.nspowner), obj_description(n.oid, 'pg_namespace'), g.acl, 'at first: ' || i.acl) FROM pg_namespace n
LEFT JOIN granted g ON g.class = 'pg_namespace'::regclass AND g.object = n.oid LEFT JOIN initial i ON i.class = 'pg_namespace'::regclass AND i.object = n.oid
WHERE n.nspname IN ('dp', 'dp_link')
UNION ALL
SELECT 'access to ' || pg_describe_object(g.class, g.object, g.sub), g.acl FROM granted g
WHERE g.object < 16384 AND g.class <> 'pg_database'::regclass
UNION ALL
SELECT 'database', concat_ws('; ', g.acl) FROM pg_database d JOIN granted g ON g.class = 'pg_database'::regclass AND g.object = d.oid WHERE d.datname = current_database()
UNION ALL
SELECT 'server ' || s.srvname, concat_ws('; ', pg_get_userbyid(s.srvowner), (SELECT array_agg(split_part(o, '=', 1) ORDER BY o) FROM unnest(s.srvoptions) o), g.acl,
         (SELECT string_agg(concat_ws(' ', m.usename, (SELECT array_agg(split_part(o, '=', 1) ORDER BY o) FROM unnest(m.umoptions) o)), ', ' ORDER BY m.usename) FROM pg_user_mappings m WHERE m.srvid = s.oid))
FROM pg_foreign_server s LEFT JOIN granted g ON g.class = 'pg_foreign_server'::regclass AND g.object = s.oid
UNION ALL
SELECT 'role ' || r.rolname, concat_ws('; ', r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolcanlogin, r.rolreplication, r.rolbypassrls, r.rolconnlimit, shobj_description(r.oid, 'pg_authid'),
         (SELECT string_agg(m.roleid::regrole::text, ', ' ORDER BY m.roleid::regrole::text) FROM pg_auth_members m WHERE m.member = r.oid))
FROM pg_roles r WHERE r.rolname LIKE 'dp\_%'
UNION ALL
SELECT format('settings of %s in %s', COALESCE(r.rolname, 'everybody'), CASE WHEN s.setdatabase = 0 THEN 'every database' ELSE 'the database' END), (SELECT array_agg(c ORDER BY c)::text FROM unnest(s.setconfig) c)
FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
