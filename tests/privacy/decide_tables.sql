-- Tables for the audits of deciders: rows and users, partitions, both accountants, copies near, far, weighted and empty; rows beyond every declared bound.
CREATE SCHEMA decide;
GRANT USAGE ON SCHEMA decide TO PUBLIC;
SET search_path = decide, public;

CREATE TABLE fare (id int PRIMARY KEY, zone text, day date, amount int, tip numeric, delta int);
INSERT INTO fare SELECT i, (ARRAY['north','south','west',NULL])[1 + i % 4], date '2024-01-01' + i, i * 7 % 61, i % 9 * 1.25, i * 11 % 41 - 20 FROM generate_series(1, 26) i;
INSERT INTO fare VALUES
  (27, 'north', '2024-01-03', 2147483647, 'NaN', 2147483647), (28, 'south', 'infinity', -2147483648, '-1e40', -2147483648),
  (29, NULL, NULL, NULL, NULL, NULL), (30, 'elsewhere', '2024-01-05', 64, 10, 20), (31, 'north', '2024-01-05', 0, 0, -20), (32, 'west', '2024-01-19', 30, 5, 0);
CREATE TABLE fare_week (LIKE fare INCLUDING ALL);
INSERT INTO fare_week TABLE fare;
CREATE TABLE nil (LIKE fare INCLUDING ALL);
CREATE TABLE curved (LIKE fare INCLUDING ALL);
INSERT INTO curved SELECT * FROM fare WHERE id % 2 = 0 OR id > 26;
CREATE TABLE fare_syn AS SELECT id, zone, day, amount, tip, delta FROM fare WHERE id <= 22 OR id > 29;
CREATE TABLE fare_w AS SELECT id, zone, day, amount, tip, delta, CASE id WHEN 1 THEN 1000.5 ELSE 1.25 END AS w FROM fare WHERE id <= 24;
CREATE TABLE fare_none (LIKE fare);
CREATE TABLE week_syn AS TABLE fare_syn;
CREATE TABLE nil_syn AS TABLE fare_syn;
CREATE TABLE curved_syn AS TABLE fare_syn;

CREATE TABLE trip (id int PRIMARY KEY, rider int, zone text, amount int);
INSERT INTO trip SELECT i, CASE WHEN i <= 9 THEN 1 WHEN i <= 13 THEN 2 WHEN i <= 16 THEN NULL ELSE i % 7 + 3 END, (ARRAY['north','south',NULL])[1 + i % 3], i * 7 % 33 FROM generate_series(1, 34) i;
INSERT INTO trip VALUES (35, 8, 'north', 2147483647), (36, 8, 'north', -5), (37, 8, 'south', NULL);
CREATE TABLE trip_syn AS SELECT * FROM trip WHERE rider IS NOT NULL AND id % 8 <> 0;

CALL dp.create_dataset('dec', epsilon => 150, default_epsilon => 0.5);
CALL dp.protect('fare', 'dec', max_rows => 1000);
CALL dp.protect('fare_week', 'dec', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}');
CALL dp.protect('nil', 'dec');
CALL dp.create_dataset('ren', epsilon => 30, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('curved', 'ren', partition_by => 'amount', grid => '{"origin": 0, "width": 16}');
CALL dp.create_dataset('guild', unit => 'user', epsilon => 100, default_epsilon => 0.5);
CALL dp.protect('trip', 'guild', unit_column => 'rider', max_rows_per_unit => 3, max_rows => 1000);
DO $$
DECLARE r text;
BEGIN
  FOREACH r IN ARRAY ARRAY['fare','fare_week','nil','curved'] LOOP
    CALL dp.describe_column(r::regclass, 'id');
    CALL dp.describe_column(r::regclass, 'zone', domain => '{north,south,west}');
    CALL dp.describe_column(r::regclass, 'day', bounds => '{2024-01-01,2024-03-31}', resolution => '7 days');
    CALL dp.describe_column(r::regclass, 'amount', bounds => '{0,60}');
    CALL dp.describe_column(r::regclass, 'tip', bounds => '{0,10}', resolution => '0.25');
    CALL dp.describe_column(r::regclass, 'delta', bounds => '{-20,20}');
    CALL dp.publish(r::regclass);
  END LOOP;
END $$;
CALL dp.describe_column('trip', 'id'); CALL dp.describe_column('trip', 'rider'); CALL dp.describe_column('trip', 'zone', domain => '{north,south}');
CALL dp.describe_column('trip', 'amount', bounds => '{0,20}');
CALL dp.publish('trip');
CALL dp.register_synthetic('fare', 'fare_syn', provenance => 'public'); CALL dp.register_synthetic('fare', 'fare_none', provenance => 'public');
CALL dp.register_synthetic('fare', 'fare_w', provenance => 'public', weight => 'w');
CALL dp.register_synthetic('fare_week', 'week_syn', provenance => 'public'); CALL dp.register_synthetic('nil', 'nil_syn', provenance => 'public');
CALL dp.register_synthetic('curved', 'curved_syn', provenance => 'public'); CALL dp.register_synthetic('trip', 'trip_syn', provenance => 'declassified');
CALL dp.allot('alice', 'dec', epsilon => 150); CALL dp.allot('alice', 'ren', epsilon => 30, delta => 1e-6); CALL dp.allot('alice', 'guild', epsilon => 100);
CALL dp.allot('bob', 'dec', epsilon => 1.2);
