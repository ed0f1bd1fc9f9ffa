CREATE FUNCTION dp._require_owner(relation regclass, what text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._require_admin(what);
  IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND pg_has_role(session_user, c.relowner, 'MEMBER')) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('%s: %s is not yours', what, relation),
      HINT = 'Only the owner of a relation who is also in dp_admin may decide about its privacy.';
  END IF;
END $$;
COMMENT ON FUNCTION dp._require_owner(regclass, text) IS 'Refuses sessions whose login role is not both in dp_admin and an owner of the relation (composition.md 14.6).';
REVOKE ALL ON FUNCTION dp._require_owner(regclass, text) FROM PUBLIC;
