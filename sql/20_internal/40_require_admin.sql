CREATE FUNCTION dp._require_admin(what text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pg_has_role(session_user, 'dp_admin', 'MEMBER') THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('%s needs membership in dp_admin', what),
      HINT = 'A superuser can GRANT dp_admin to the role that keeps the privacy policy.';
  END IF;
END $$;
COMMENT ON FUNCTION dp._require_admin(text) IS 'Refuses sessions whose login role is not in dp_admin.';
REVOKE ALL ON FUNCTION dp._require_admin(text) FROM PUBLIC;
