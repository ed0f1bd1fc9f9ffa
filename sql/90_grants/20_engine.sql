GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system(), pg_catalog.pg_current_wal_insert_lsn() TO dp_owner;
-- whom a seal waits for, which dp.harden_catalog takes from everybody
GRANT EXECUTE ON FUNCTION pg_catalog.pg_lock_status(), pg_catalog.pg_stat_get_activity(integer) TO dp_owner;
GRANT SELECT (oid, rolname, rolpassword, rolcanlogin, rolvaliduntil, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication) ON pg_catalog.pg_authid TO dp_auth;
