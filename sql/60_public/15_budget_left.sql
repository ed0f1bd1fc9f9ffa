CREATE FUNCTION dp._budget_left(dataset text, who name, OUT epsilon numeric, OUT delta numeric, OUT used numeric)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (v ->> 'epsilon')::numeric, (v ->> 'delta')::numeric, (v ->> 'used')::numeric
  FROM dp._engine('budget', jsonb_build_object('dataset', dataset, 'who', who)) v
$$;
COMMENT ON FUNCTION dp._budget_left(text, name) IS 'What is left of a dataset (who NULL) or of a role''s allotment at its most spent leaf: the largest epsilon of one more Laplace charge, the delta, and the used part of the budget.';
REVOKE ALL ON FUNCTION dp._budget_left(text, name) FROM PUBLIC;

CREATE FUNCTION dp.dp_budget_left(dataset text) RETURNS numeric
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT least(s.epsilon, a.epsilon) FROM dp._budget_left(dataset, NULL) s, dp._budget_left(dataset, dp._who()) a
$$;
COMMENT ON FUNCTION dp.dp_budget_left(text) IS 'The largest epsilon that one further question of yours on this dataset may cost: the smaller of your allotment''s and the dataset''s remainder.';
REVOKE ALL ON FUNCTION dp.dp_budget_left(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_budget_left(text) TO dp_analyst, dp_gateway;
