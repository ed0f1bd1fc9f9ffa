-- The tables of test_decide.py: adult with copies near, far, weighted and empty; another schema; users; a Rényi accountant; partitions.
CREATE TABLE adult (id int PRIMARY KEY, kind text, age int, hours numeric(6,2), change int);
INSERT INTO adult SELECT i, (ARRAY['a','b','c'])[1 + i % 3], i % 90, CASE WHEN i % 17 = 0 THEN NULL ELSE (i % 400) / 4.0 END, i % 101 - 50 FROM generate_series(1, 2000) i;
INSERT INTO adult SELECT i, 'a', 500, 1000, 4000 FROM generate_series(2001, 2020) i;  -- beyond what is declared
CREATE TABLE adult_syn (id int PRIMARY KEY, kind text, age int, hours numeric(6,2), change int); INSERT INTO adult_syn SELECT i, (ARRAY['a','b','c'])[1 + i % 3], i % 90, CASE WHEN i % 17 = 0 THEN NULL ELSE (i % 400) / 4.0 END, i % 101 - 50 FROM generate_series(1, 1900) i;
CREATE TABLE adult_far (id int PRIMARY KEY, kind text, age int, hours numeric(6,2), change int); INSERT INTO adult_far SELECT i, (ARRAY['a','b','c'])[1 + i % 3], i % 90, CASE WHEN i % 17 = 0 THEN NULL ELSE (i % 400) / 4.0 END, i % 101 - 50 FROM generate_series(1, 700) i;
UPDATE adult_far SET age = age + 30, hours = greatest(hours - 30, 0), change = abs(change);
INSERT INTO adult_far SELECT i, 'b', -500, 1000, -4000 FROM generate_series(3001, 3010) i;
CREATE TABLE adult_w (id int, kind text, age int, hours numeric(6,2), change int, w float8);
INSERT INTO adult_w SELECT id, kind, age, hours, change, 4 FROM adult WHERE id % 4 = 0;
CREATE TABLE adult_none (id int PRIMARY KEY, kind text, age int, hours numeric(6,2), change int);
CREATE TABLE unregistered (id int PRIMARY KEY, kind text, age int, hours numeric(6,2), change int);
CREATE TABLE visits (id int PRIMARY KEY, age int); INSERT INTO visits SELECT i, i % 90 FROM generate_series(1, 300) i;
CREATE TABLE visits_syn AS SELECT * FROM visits WHERE id <= 290;
CREATE SCHEMA lab; GRANT USAGE ON SCHEMA lab TO PUBLIC;
CREATE TABLE lab.runs (id int PRIMARY KEY, value int); INSERT INTO lab.runs SELECT i, i % 10 FROM generate_series(1, 90) i;
CREATE TABLE lab.runs_syn AS SELECT * FROM lab.runs;

CALL dp.create_dataset('census', epsilon => 1000);
CALL dp.protect('adult', 'census'); CALL dp.protect('visits', 'census'); CALL dp.protect('lab.runs', 'census');
CALL dp.describe_column('adult', 'id'); CALL dp.describe_column('adult', 'kind', domain => '{a,b,c,none}', nullable => false);
CALL dp.describe_column('adult', 'age', bounds => '{0,100}'); CALL dp.describe_column('adult', 'hours', bounds => '{0,100}', resolution => '0.25');
CALL dp.describe_column('adult', 'change', bounds => '{-50,50}');
CALL dp.describe_column('visits', 'age', bounds => '{0,100}'); CALL dp.describe_column('lab.runs', 'value', bounds => '{0,9}');
CALL dp.publish('adult'); CALL dp.publish('visits'); CALL dp.publish('lab.runs');
CALL dp.allot('alice', 'census', epsilon => 1000); CALL dp.allot('bob', 'census', epsilon => 1000);
CALL dp.register_synthetic('adult', 'adult_syn', 'public'); CALL dp.register_synthetic('adult', 'adult_far', 'public');
CALL dp.register_synthetic('adult', 'adult_w', 'public', weight => 'w'); CALL dp.register_synthetic('adult', 'adult_none', 'public');
CALL dp.register_synthetic('visits', 'visits_syn', 'public'); CALL dp.register_synthetic('lab.runs', 'lab.runs_syn', 'public');

CREATE TABLE orders (id int PRIMARY KEY, customer int, price int);
INSERT INTO orders SELECT i, i % 120, i % 50 FROM generate_series(1, 300) i;
CREATE TABLE orders_syn AS SELECT * FROM orders WHERE id <= 270;
CALL dp.create_dataset('shop', unit => 'user', epsilon => 1000);
CALL dp.protect('orders', 'shop', unit_column => 'customer', max_rows_per_unit => 3);
CALL dp.describe_column('orders', 'price', bounds => '{0,50}'); CALL dp.describe_column('orders', 'customer'); CALL dp.describe_column('orders', 'id');
CALL dp.publish('orders'); CALL dp.allot('alice', 'shop', epsilon => 1000);
CALL dp.register_synthetic('orders', 'orders_syn', 'public');

CREATE TABLE curved (id int PRIMARY KEY, age int); INSERT INTO curved SELECT i, i % 90 FROM generate_series(1, 500) i;
CREATE TABLE curved_syn AS TABLE curved;
CALL dp.create_dataset('curved', epsilon => 100, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('curved', 'curved'); CALL dp.describe_column('curved', 'age', bounds => '{0,100}'); CALL dp.publish('curved');
CALL dp.allot('alice', 'curved', epsilon => 90, delta => 5e-7); CALL dp.register_synthetic('curved', 'curved_syn', 'public');

CREATE TABLE days (id int PRIMARY KEY, day date, age int);
INSERT INTO days SELECT i, DATE '2024-01-01' + i % 70, i % 90 FROM generate_series(1, 700) i;
CREATE TABLE days_syn AS TABLE days;
CALL dp.create_dataset('days', epsilon => 100);
CALL dp.protect('days', 'days', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}');
CALL dp.describe_column('days', 'age', bounds => '{0,100}'); CALL dp.describe_column('days', 'day', bounds => '{2024-01-01,2024-12-31}');
CALL dp.publish('days'); CALL dp.allot('alice', 'days', epsilon => 90); CALL dp.register_synthetic('days', 'days_syn', 'public');
-- after the check of the registration
INSERT INTO adult_w VALUES (1, 'a', 50, 50, 0, NULL), (2, 'a', 50, 50, 0, -3), (3, 'a', 50, 50, 0, 'NaN'), (4, NULL, 50, 50, 0, 7);
