-- Forms of questions are closed no more: what failed is closed by its exact question from now on (composition.md 10.3 d)
ALTER EXTENSION pg_epsilon DROP TABLE dp.closed_shape;
DROP TABLE dp.closed_shape;
