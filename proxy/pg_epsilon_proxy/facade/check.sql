-- What is wrong with this facade, one line each; no line: it may serve. Read-only, as dp_gateway.
-- $1, $2: schema and name of the relations that may be read without the net (public tables; views); $3: kind of each ('f', 'v').
-- $4, $5: schema and name of the relations that must exist with the net. $6: extensions that are needed. $7: those that were
-- left out for want of them: a superuser may just have made one.
WITH allowed AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS a(nspname, relname, kind)
), netted AS (
  SELECT * FROM unnest($4::text[], $5::text[]) AS a(nspname, relname)
), relation AS (
  SELECT c.oid, n.nspname, c.relname, c.relkind::text AS kind, c.relrowsecurity, c.relforcerowsecurity, c.relowner, c.relacl,
    format('%I.%I', n.nspname, c.relname) AS shown
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname !~ '^pg_(toast|temp_|toast_temp_)' AND NOT (n.nspname = 'dp_state' AND c.relname = 'facade_state')
), judged AS (
  SELECT r.*, EXISTS (SELECT FROM allowed a WHERE (a.nspname, a.relname, a.kind) = (r.nspname, r.relname, r.kind)) AS open
  FROM relation r
), policy AS (
  SELECT p.polrelid, count(*) AS all_of_them,
    count(*) FILTER (WHERE p.polcmd IN ('r', '*') AND p.polpermissive AND p.polroles = '{0}' AND d.refobjid IS NOT NULL
      AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) ~ '^(dp\.)?refuse\(E?''([^'']|'''')*''::text\)$') AS nets
  FROM pg_catalog.pg_policy p
  LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_policy'::regclass AND d.objid = p.oid
    AND d.refclassid = 'pg_catalog.pg_proc'::regclass AND d.refobjid = to_regprocedure('dp.refuse(text)')
  GROUP BY p.polrelid
)
SELECT j.shown || ' has row-level security disabled' FROM judged j WHERE NOT j.open AND NOT j.relrowsecurity
UNION ALL SELECT j.shown || ' does not force row-level security on its owner' FROM judged j WHERE NOT j.open AND NOT j.relforcerowsecurity
UNION ALL SELECT j.shown || ' lacks the policy that refuses' FROM judged j LEFT JOIN policy p ON p.polrelid = j.oid
  WHERE NOT j.open AND p.nets IS DISTINCT FROM 1
UNION ALL SELECT j.shown || ' has more than one policy' FROM judged j JOIN policy p ON p.polrelid = j.oid WHERE p.all_of_them > 1
UNION ALL SELECT j.shown || ' is not owned by dp_facade' FROM judged j WHERE pg_catalog.pg_get_userbyid(j.relowner) <> 'dp_facade'
UNION ALL SELECT j.shown || ' holds rows' FROM judged j
  WHERE NOT j.open AND j.kind IN ('r', 'm') AND pg_catalog.pg_relation_size(j.oid) > 0
UNION ALL SELECT j.shown || ' has children' FROM judged j JOIN pg_catalog.pg_inherits i ON i.inhparent = j.oid
UNION ALL SELECT j.shown || ' grants more than SELECT' FROM judged j
  WHERE EXISTS (SELECT FROM pg_catalog.aclexplode(j.relacl) a WHERE a.grantee <> j.relowner AND a.privilege_type <> 'SELECT')
UNION ALL SELECT format('%I.%I', n.nspname, n.relname) || ' is missing' FROM netted n
  WHERE NOT EXISTS (SELECT FROM relation r WHERE (r.nspname, r.relname, r.kind) = (n.nspname, n.relname, 'r'))
UNION ALL SELECT format('%I.%I', a.nspname, a.relname) || ' is missing' FROM allowed a
  WHERE NOT EXISTS (SELECT FROM relation r WHERE (r.nspname, r.relname, r.kind) = (a.nspname, a.relname, a.kind))
UNION ALL SELECT 'dp.refuse(text) is missing' WHERE to_regprocedure('dp.refuse(text)') IS NULL
UNION ALL SELECT 'dp.refuse(text) is not IMMUTABLE' FROM pg_catalog.pg_proc p
  WHERE p.oid = to_regprocedure('dp.refuse(text)') AND p.provolatile <> 'i'
UNION ALL SELECT 'dp_analyst may not execute dp.refuse(text)' WHERE to_regprocedure('dp.refuse(text)') IS NOT NULL
  AND NOT pg_catalog.has_function_privilege('dp_analyst', to_regprocedure('dp.refuse(text)'), 'EXECUTE')
UNION ALL SELECT 'schema dp_null is missing' WHERE to_regnamespace('dp_null') IS NULL
UNION ALL SELECT 'dp_facade is a superuser or bypasses row-level security' FROM pg_catalog.pg_roles r
  WHERE r.rolname = 'dp_facade' AND (r.rolsuper OR r.rolbypassrls)
UNION ALL SELECT 'dp_gateway is a superuser or bypasses row-level security' FROM pg_catalog.pg_roles r
  WHERE r.rolname = 'dp_gateway' AND (r.rolsuper OR r.rolbypassrls)
UNION ALL SELECT format('PUBLIC may use %s %s', lower(s.kind), s.name) FROM dp.open_surfaces() s
UNION ALL SELECT format('analysts may create objects in schema %I', n.nspname) FROM pg_catalog.pg_namespace n
  WHERE n.nspname !~ '^pg_' AND pg_catalog.has_schema_privilege('dp_analyst', n.oid, 'CREATE')
UNION ALL SELECT 'analysts may create schemas' WHERE pg_catalog.has_database_privilege('dp_analyst', current_database(), 'CREATE')
UNION ALL SELECT 'PUBLIC may connect' WHERE pg_catalog.has_database_privilege('public', current_database(), 'CONNECT')
UNION ALL SELECT format('extension %I is not needed here', x.extname) FROM pg_catalog.pg_extension x
  WHERE x.extname NOT IN ('plpgsql', 'postgres_fdw') AND NOT x.extname = ANY ($6::text[] || $7::text[])
UNION ALL SELECT format('extension %I is missing', e) FROM unnest($6::text[]) e
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_extension x WHERE x.extname = e)
UNION ALL SELECT format('analysts may use language %I', l.lanname) FROM pg_catalog.pg_language l
  WHERE l.lanname NOT IN ('internal', 'c', 'sql', 'plpgsql') AND (NOT l.lanpltrusted OR pg_catalog.has_language_privilege('dp_analyst', l.oid, 'USAGE'))
UNION ALL SELECT format('analysts may use foreign server %I', f.srvname) FROM pg_catalog.pg_foreign_server f
  WHERE pg_catalog.has_server_privilege('dp_analyst', f.oid, 'USAGE')
ORDER BY 1
