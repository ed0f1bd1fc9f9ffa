CREATE FUNCTION dp._release_answers_of() RETURNS TABLE (
  dataset text, name text, yours boolean, parameters text[], answer double precision,
  unbiased double precision, low double precision, high double precision, below_resolution boolean,
  confidence numeric, simultaneous boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT f.dataset, f.name, f.who = dp._who(), a.parameters, a.answer, a.unbiased, a.low, a.high, a.below_resolution,
         p.confidence, p.simultaneous
  FROM dp.family_answer a JOIN dp.family_publication p USING (name) JOIN dp.family f USING (dataset, name)
  WHERE f.who = dp._who() OR p.shows_grid
  ORDER BY f.dataset, f.name, a.number
$$;
COMMENT ON FUNCTION dp._release_answers_of() IS 'Rows of dp.release_answers for who asks.';
REVOKE ALL ON FUNCTION dp._release_answers_of() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._release_answers_of() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.release_answers AS SELECT * FROM dp._release_answers_of();
COMMENT ON VIEW dp.release_answers IS
  'Answers to the grids of published releases (dp_release_numeric, publish): of yours, and of those whose '
  'publishers show them. Grids that are not shown are their askers'' alone. confidence: with which low and '
  'high hold, for all answers of a family at once where simultaneous, else for each by itself.';
GRANT SELECT ON dp.release_answers TO dp_analyst, dp_gateway, dp_admin;
