-- Damage done to a facade by hand, what the check must say of it, and the repair.
-- "name | part of the problem", damage, "---", repair.
== policy dropped | lacks the policy
DROP POLICY pg_epsilon ON clinic.visit
---
CREATE POLICY pg_epsilon ON clinic.visit FOR SELECT USING (dp.refuse('clinic.visit'))
== another policy | more than one policy
CREATE POLICY open ON clinic.visit USING (true)
---
DROP POLICY open ON clinic.visit
== policy for a few | lacks the policy
ALTER POLICY pg_epsilon ON clinic.visit TO alice
---
ALTER POLICY pg_epsilon ON clinic.visit TO PUBLIC
== policy of another kind | lacks the policy
ALTER POLICY pg_epsilon ON clinic.visit USING (dp.refuse('x') IS NOT NULL AND false)
---
ALTER POLICY pg_epsilon ON clinic.visit USING (dp.refuse('clinic.visit'))
== policy of another function | lacks the policy
CREATE FUNCTION public.refuse(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
ALTER POLICY pg_epsilon ON clinic.visit USING (public.refuse('clinic.visit'::text))
---
ALTER POLICY pg_epsilon ON clinic.visit USING (dp.refuse('clinic.visit'));
DROP FUNCTION public.refuse
== security off | row-level security disabled
ALTER TABLE clinic.visit DISABLE ROW LEVEL SECURITY
---
ALTER TABLE clinic.visit ENABLE ROW LEVEL SECURITY
== not forced | does not force
ALTER TABLE clinic.visit NO FORCE ROW LEVEL SECURITY
---
ALTER TABLE clinic.visit FORCE ROW LEVEL SECURITY
== stable | not IMMUTABLE
ALTER FUNCTION dp.refuse(text) STABLE
---
ALTER FUNCTION dp.refuse(text) IMMUTABLE
== refuses nothing | does not raise DP002
ALTER FUNCTION dp.refuse(text) RENAME TO refuse2;
CREATE FUNCTION dp.refuse(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
GRANT EXECUTE ON FUNCTION dp.refuse(text) TO dp_analyst
---
DROP FUNCTION dp.refuse(text);
ALTER FUNCTION dp.refuse2(text) RENAME TO refuse
== naked table | clinic.naked has row-level security disabled
CREATE TABLE clinic.naked (n int)
---
DROP TABLE clinic.naked
== naked table in a new schema | other.naked
CREATE SCHEMA other CREATE TABLE naked (n int)
---
DROP SCHEMA other CASCADE
== naked view | clinic.naked lacks the policy
CREATE VIEW clinic.naked AS SELECT 1
---
DROP VIEW clinic.naked
== naked foreign table | clinic.naked lacks the policy
CREATE FOREIGN TABLE clinic.naked (n int) SERVER pg_epsilon_public
---
DROP FOREIGN TABLE clinic.naked
== child | has children
CREATE TABLE clinic.child () INHERITS (clinic.mixed)
---
DROP TABLE clinic.child
== other owner | not owned by
ALTER TABLE clinic.visit OWNER TO postgres
---
ALTER TABLE clinic.visit OWNER TO dp_facade
== superuser owner | dp_facade is a superuser
ALTER ROLE dp_facade SUPERUSER
---
ALTER ROLE dp_facade NOSUPERUSER
== owner bypasses | dp_facade is a superuser or bypasses
ALTER ROLE dp_facade BYPASSRLS
---
ALTER ROLE dp_facade NOBYPASSRLS
== missing | clinic.visit is missing
ALTER TABLE clinic.visit RENAME TO gone
---
ALTER TABLE clinic.gone RENAME TO visit
== rows | clinic.patient holds rows
ALTER TABLE clinic.visit DISABLE ROW LEVEL SECURITY;
INSERT INTO clinic.patient (id, born) VALUES (1, now());
ALTER TABLE clinic.visit ENABLE ROW LEVEL SECURITY
---
TRUNCATE clinic.patient CASCADE
== write grant | more than SELECT
GRANT INSERT ON clinic.visit TO dp_analyst
---
REVOKE INSERT ON clinic.visit FROM dp_analyst
== surface | PUBLIC may use function pg_database_size(oid)
GRANT EXECUTE ON FUNCTION pg_database_size(oid) TO PUBLIC
---
REVOKE ALL ON FUNCTION pg_database_size(oid) FROM PUBLIC
== shared catalog | PUBLIC may use table pg_db_role_setting
GRANT SELECT ON pg_db_role_setting TO PUBLIC
---
REVOKE ALL ON pg_db_role_setting FROM PUBLIC
== create in public | create objects
GRANT CREATE ON SCHEMA public TO PUBLIC
---
REVOKE CREATE ON SCHEMA public FROM PUBLIC
== create schemas | create schemas
GRANT CREATE ON DATABASE facade TO PUBLIC
---
REVOKE CREATE ON DATABASE facade FROM PUBLIC
== connect | PUBLIC may connect
GRANT CONNECT ON DATABASE facade TO PUBLIC
---
REVOKE CONNECT ON DATABASE facade FROM PUBLIC
== extension | extension dblink is not needed
CREATE EXTENSION dblink SCHEMA dp_link
---
DROP EXTENSION dblink
== foreign server | foreign server
GRANT USAGE ON FOREIGN SERVER pg_epsilon_public TO alice;
GRANT USAGE ON FOREIGN SERVER pg_epsilon_public TO PUBLIC
---
REVOKE USAGE ON FOREIGN SERVER pg_epsilon_public FROM PUBLIC, alice
