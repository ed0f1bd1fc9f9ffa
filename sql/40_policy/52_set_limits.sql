CREATE PROCEDURE dp.set_limits(
  rows            bigint DEFAULT NULL,
  bytes           bigint DEFAULT NULL,
  memory          bigint DEFAULT NULL,
  undeclared_rows bigint DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_admin('dp.set_limits');
  IF num_nonnulls(rows, bytes, memory, undeclared_rows) = 0 OR rows NOT BETWEEN 1000 AND 1000000000000000 OR bytes NOT BETWEEN 1000000 AND 1000000000000000000
     OR memory NOT BETWEEN 1000000 AND 1000000000 OR undeclared_rows NOT BETWEEN 1 AND 1000000000000 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'a limit is out of range',
      HINT = 'rows: 1000 to 1e15; bytes: 1e6 to 1e18; memory: 1e6 to 1e9, in bytes; undeclared_rows: 1 to 1e12. CALL dp.set_limits(rows => 2000000000)';
  END IF;
  INSERT INTO dp.engine_limits AS l (rows, bytes, memory, undeclared_rows) VALUES (rows, bytes, memory, undeclared_rows)
  ON CONFLICT ON CONSTRAINT engine_limits_pkey DO UPDATE SET rows = COALESCE(EXCLUDED.rows, l.rows), bytes = COALESCE(EXCLUDED.bytes, l.bytes),
    memory = COALESCE(EXCLUDED.memory, l.memory), undeclared_rows = COALESCE(EXCLUDED.undeclared_rows, l.undeclared_rows);
  PERFORM dp._bump_policy();
END $$;
COMMENT ON PROCEDURE dp.set_limits(bigint, bigint, bigint, bigint) IS
  'Declares how large the joins of one question may get, by what is declared of its relations: rows and bytes of any of them, bytes of memory that an aggregate collects (twice each bound must fit), and the rows that a relation without max_rows counts for. What is left out stays. A question above is refused before it is charged.';
REVOKE ALL ON PROCEDURE dp.set_limits(bigint, bigint, bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.set_limits(bigint, bigint, bigint, bigint) TO dp_admin;
