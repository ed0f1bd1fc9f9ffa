-- Tables for the audits: every kind of unit and account, and rows that a loader should never have let in.
CREATE SCHEMA audit;
SET search_path = audit, public;
CREATE TYPE triage AS ENUM ('red', 'amber', 'green');

-- row units, pure: no partitions, partitions by week, by a list; one row; no row
CREATE TABLE visit (id int PRIMARY KEY, ward text, age int, stage triage, insured boolean, charge numeric, score float8,
  seen timestamptz, day date, note text);
INSERT INTO visit SELECT i, (ARRAY['north','south','zäh "w\x',NULL])[1 + i % 4], 20 + i * 7 % 60, (ARRAY['red','amber','green',NULL])[1 + i % 4]::triage,
  i % 3 = 0, i * 10.25, i / 7.0, timestamptz '2024-01-01 00:00+00' + i * interval '11 hours', date '2024-01-01' + i, 'note ' || i % 5
  FROM generate_series(1, 40) i;
INSERT INTO visit VALUES
  (41, 'north', -5, 'red', true, 'NaN', 'NaN', 'infinity', 'infinity', ''),
  (42, 'elsewhere', 2147483647, NULL, NULL, '-1e40', 'Infinity', '-infinity', '-infinity', NULL),
  (43, '', NULL, 'green', false, 'Infinity', '-Infinity', NULL, NULL, U&'\2603\0301''"\\%_'),
  (44, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (45, 'North', 33, 'red', true, 0, '-0', '4000-01-01', '4713-01-01 BC', repeat('x', 3000)),
  (46, 'south', 33, 'red', true, 0, 0, '2024-02-01', '2024-02-01', 'same'),
  (47, 'south', 33, 'red', true, 0, 0, '2024-02-01', '2024-02-01', 'same');
CREATE TABLE visit_week (LIKE visit INCLUDING ALL);
INSERT INTO visit_week SELECT * FROM visit;
CREATE TABLE visit_ward (LIKE visit INCLUDING ALL);
INSERT INTO visit_ward SELECT * FROM visit;
CREATE TABLE lone (LIKE visit INCLUDING ALL);
INSERT INTO lone SELECT * FROM visit WHERE id = 6;
CREATE TABLE void (LIKE visit INCLUDING ALL);
CREATE TABLE shut (LIKE visit INCLUDING ALL);
INSERT INTO shut SELECT * FROM visit WHERE id < 5;

CALL dp.create_dataset('clinic', unit => 'row', epsilon => 20, delta => 1e-5, default_epsilon => 0.25);
CALL dp.protect('visit', 'clinic', scale => 50);
CALL dp.protect('visit_week', 'clinic', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}');
CALL dp.protect('visit_ward', 'clinic', partition_by => 'ward', grid => '{"list": ["north", "south"]}');
CALL dp.protect('lone', 'clinic');
CALL dp.protect('void', 'clinic');
CALL dp.protect('shut', 'clinic');

-- row units, renyi: cells of integers and of instants
CREATE TABLE sample (id int PRIMARY KEY, batch int, taken timestamptz, lab text, value float8);
INSERT INTO sample SELECT i, i % 40 - 5, timestamptz '2024-01-01 00:30+00' + i * interval '47 minutes', (ARRAY['a','b',NULL])[1 + i % 3], i
  FROM generate_series(1, 40) i;
INSERT INTO sample VALUES (41, -2147483648, 'infinity', 'a', 'NaN'), (42, NULL, NULL, NULL, NULL), (43, 2147483647, '-infinity', 'zz', 'Infinity');
CREATE TABLE sample_hour (LIKE sample INCLUDING ALL);
INSERT INTO sample_hour SELECT * FROM sample;
CREATE TABLE slot (at timestamp, day date, half smallint);
INSERT INTO slot SELECT timestamp '2023-12-31 20:15' + i * interval '29 minutes', date '2023-12-25' + i, i - 20 FROM generate_series(1, 30) i;
INSERT INTO slot VALUES ('infinity', '-infinity', 32767), ('4713-01-01 BC', '5874897-12-31', -32768), (NULL, NULL, NULL);
CREATE TABLE slot_half (LIKE slot);
INSERT INTO slot_half SELECT * FROM slot;
CALL dp.create_dataset('lab', unit => 'row', epsilon => 8, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('sample', 'lab', partition_by => 'batch', grid => '{"origin": 0, "width": 10}', scale => 40);
CALL dp.protect('slot', 'lab', partition_by => 'at', grid => '{"origin": "2024-01-01 00:45:00", "width": "90 minutes"}');
CALL dp.protect('slot_half', 'lab', partition_by => 'half', grid => '{"origin": 3, "width": 7}');
CALL dp.protect('sample_hour', 'lab', partition_by => 'taken', grid => '{"origin": "2024-01-01 00:00+00", "width": "6 hours"}');

-- user units, pure: by column, by a foreign key, without a cap; heavy users, keys that lead nowhere, NULL keys
CREATE TABLE customer (id int PRIMARY KEY, segment text, vip boolean);
CREATE TABLE purchase (id int PRIMARY KEY, customer_id int, placed date, status text, amount float8);
CREATE TABLE item (purchase_id int REFERENCES purchase, sku text, price numeric, qty smallint);
CREATE TABLE click (customer_id int, page text, at timestamptz);
INSERT INTO customer SELECT i, (ARRAY['home','office',NULL])[1 + i % 3], i % 2 = 0 FROM generate_series(1, 12) i;
INSERT INTO purchase SELECT i, CASE WHEN i <= 14 THEN 1 WHEN i <= 20 THEN 2 WHEN i <= 25 THEN NULL WHEN i <= 27 THEN 777 ELSE i % 10 END, date '2024-01-01' + i,
  (ARRAY['open','paid','sent','lost',NULL])[1 + i % 5], (ARRAY[1.5,'NaN','Infinity',-1e308,NULL]::float8[])[1 + i % 5] FROM generate_series(1, 45) i;
INSERT INTO purchase VALUES (46, 888, '2024-01-05', 'open', 1), (47, 888, '2024-01-05', 'paid', 2), (48, 888, '2024-01-06', 'sent', 3), (49, 888, '2024-02-15', 'open', 4), (50, 888, '2024-02-15', 'paid', 5);
INSERT INTO item SELECT 1 + i % 45, (ARRAY['s1','s2','s3','s4','s5','s6','other',NULL])[1 + i % 8], (ARRAY[1,'NaN',-1,NULL]::numeric[])[1 + i % 4], i % 7 FROM generate_series(1, 100) i;
INSERT INTO item SELECT 1, 's1', 5, 1 FROM generate_series(1, 30);
INSERT INTO item VALUES (NULL, 's1', 5, 1), (NULL, 's2', NULL, NULL);
INSERT INTO click SELECT CASE WHEN i % 6 = 0 THEN NULL ELSE i % 9 END, (ARRAY['p1','p2','p3'])[1 + i % 3], '2024-01-01' FROM generate_series(1, 60) i;
CALL dp.create_dataset('shop', unit => 'user', epsilon => 20, default_epsilon => 0.5);
CALL dp.protect('customer', 'shop', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('purchase', 'shop', unit_column => 'customer_id', max_rows_per_unit => 5);
CALL dp.protect('item', 'shop', unit_path => '{purchase_id,customer_id}', max_rows_per_unit => 4);
CALL dp.protect('click', 'shop', unit_column => 'customer_id', scale => 20);

-- user units, renyi: text keys, no primary key and equal rows, a path of two foreign keys
CREATE TABLE login (who text, host text, at timestamptz, ok boolean);
CREATE TABLE device (id int PRIMARY KEY, owner text, model text);
CREATE TABLE session (id int PRIMARY KEY, device_id int REFERENCES device);
CREATE TABLE event (session_id int REFERENCES session, kind text, size int);
INSERT INTO login SELECT (ARRAY['ann','Ann','änn','',NULL,'o''hara','☃'])[1 + i % 7], (ARRAY['h1','h2','h3','h4'])[1 + i % 4], timestamptz '2024-01-01 00:00+00' + i / 3 * interval '1 hour',
  i % 2 = 0 FROM generate_series(1, 70) i;
INSERT INTO login SELECT 'ann', 'h1', '2024-01-01', true FROM generate_series(1, 9);
INSERT INTO device SELECT i, (ARRAY['ann','änn','bob',NULL])[1 + i % 4], 'm' || i % 2 FROM generate_series(1, 12) i;
INSERT INTO session SELECT i, CASE WHEN i % 9 = 0 THEN NULL ELSE 1 + i % 12 END FROM generate_series(1, 30) i;
INSERT INTO event SELECT CASE WHEN i % 13 = 0 THEN NULL ELSE 1 + i % 30 END, (ARRAY['k1','k2','k3',NULL])[1 + i % 4], i FROM generate_series(1, 120) i;
CREATE TABLE trio (who text, host text);
INSERT INTO trio VALUES ('ann', 'h1'), ('ann', 'h2'), ('ann', 'h3');
CALL dp.create_dataset('duo', unit => 'user', epsilon => 1);
CALL dp.protect('trio', 'duo', unit_column => 'who', max_rows_per_unit => 3);
CALL dp.describe_column('trio', 'host', domain => '{h1,h2,h3}', nullable => false);
CALL dp.create_dataset('web', unit => 'user', epsilon => 12, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('login', 'web', unit_column => 'who', max_rows_per_unit => 3);
CALL dp.protect('device', 'web', unit_column => 'owner', max_rows_per_unit => 2);
CALL dp.protect('session', 'web', unit_path => '{device_id,owner}', max_rows_per_unit => 3);
CALL dp.protect('event', 'web', unit_path => '{session_id,device_id,owner}', max_rows_per_unit => 4);

-- sums: row units, pure, and user units, pure: rows and users beyond every declared bound
CREATE TABLE pay (LIKE visit INCLUDING ALL);
INSERT INTO pay SELECT * FROM visit WHERE id % 3 = 0 OR id > 40;
CREATE TABLE unpaid (LIKE visit INCLUDING ALL);
CALL dp.create_dataset('pay', unit => 'row', epsilon => 11, default_epsilon => 0.25);
CALL dp.protect('pay', 'pay', scale => 20, max_rows => 1000);
CALL dp.protect('unpaid', 'pay');
CREATE TABLE deal (id int PRIMARY KEY, buyer int, status text, amount float8);
CREATE TABLE line (deal_id int REFERENCES deal, sku text, price numeric, qty smallint);
CREATE TABLE hit (buyer int, weight int);
INSERT INTO deal SELECT i, (ARRAY[1,1,1,2,3,NULL,4])[1 + i % 7], (ARRAY['open','paid',NULL])[1 + i % 3], (ARRAY[1.5,'NaN','Infinity',-1e308,NULL]::float8[])[1 + i % 5] FROM generate_series(1, 30) i;
INSERT INTO line SELECT 1 + i % 30, (ARRAY['s1','s2','s3','other'])[1 + i % 4], (ARRAY[1.25,9999.99,-1,NULL,'NaN']::numeric[])[1 + i % 5], (ARRAY[1,3,6,32767,-32768,NULL])[1 + i % 6]::smallint
  FROM generate_series(1, 80) i;
INSERT INTO hit SELECT (ARRAY[1,2,NULL])[1 + i % 3], i FROM generate_series(1, 20) i;
CALL dp.create_dataset('trade', unit => 'user', epsilon => 11, default_epsilon => 0.5);
CALL dp.protect('deal', 'trade', unit_column => 'buyer', max_rows_per_unit => 4);
CALL dp.protect('line', 'trade', unit_path => '{deal_id,buyer}', max_rows_per_unit => 5);
CALL dp.protect('hit', 'trade', unit_column => 'buyer');
CALL dp.describe_column('deal', 'id', bounds => '{0,100}');
CALL dp.describe_column('deal', 'buyer');
CALL dp.describe_column('deal', 'status', domain => '{open,paid}', nullable => false);
CALL dp.describe_column('deal', 'amount');
CALL dp.describe_column('line', 'sku', domain => '{s1,s2,s3}', nullable => false);
CALL dp.describe_column('line', 'price', bounds => '{0,50}', resolution => '0.5');
CALL dp.describe_column('line', 'qty', bounds => '{0,6}');
CALL dp.describe_column('hit', 'weight', bounds => '{0,9}');

DO $$
DECLARE r text;
BEGIN
  FOREACH r IN ARRAY ARRAY['pay','unpaid','visit','visit_week','visit_ward','lone','void','shut'] LOOP
    CALL dp.describe_column(r::regclass, 'id');
    CALL dp.describe_column(r::regclass, 'ward', domain => ARRAY['north','south','zäh "w\x']);
    CALL dp.describe_column(r::regclass, 'age', bounds => '{0,120}', resolution => '40');
    CALL dp.describe_column(r::regclass, 'stage', nullable => false);
    CALL dp.describe_column(r::regclass, 'insured');
    CALL dp.describe_column(r::regclass, 'charge', edges => '{0,100,200,500}');
    CALL dp.describe_column(r::regclass, 'score');
    CALL dp.describe_column(r::regclass, 'seen');
    CALL dp.describe_column(r::regclass, 'day', bounds => '{2024-01-01,2024-03-31}', resolution => '7 days');
    CALL dp.describe_column(r::regclass, 'note');
  END LOOP;
  FOREACH r IN ARRAY ARRAY['sample','sample_hour'] LOOP
    CALL dp.describe_column(r::regclass, 'batch', bounds => '{0,39}', resolution => '20');
    CALL dp.describe_column(r::regclass, 'taken');
    CALL dp.describe_column(r::regclass, 'lab', domain => '{a,b}');
    CALL dp.describe_column(r::regclass, 'value');
  END LOOP;
END $$;
CALL dp.describe_column('slot', 'at');
CALL dp.describe_column('slot', 'day');
CALL dp.describe_column('slot_half', 'half', bounds => '{-20,20}', resolution => '10');
CALL dp.describe_column('customer', 'segment', domain => '{home,office}');
CALL dp.describe_column('customer', 'vip');
CALL dp.describe_column('purchase', 'status', domain => '{open,paid,sent}');
CALL dp.describe_column('purchase', 'placed', bounds => '{2024-01-01,2024-03-31}', resolution => '30 days');
CALL dp.describe_column('purchase', 'amount');
CALL dp.describe_column('purchase', 'customer_id');
CALL dp.describe_column('item', 'sku', domain => '{s1,s2,s3,s4,s5,s6}', nullable => false);
CALL dp.describe_column('item', 'price', bounds => '{0,10}');
CALL dp.describe_column('item', 'qty', bounds => '{0,6}');
CALL dp.describe_column('click', 'page', domain => '{p1,p2,p3,p4}');
CALL dp.describe_column('login', 'host', domain => '{h1,h2,h3,h4,h5}');
CALL dp.describe_column('login', 'ok');
CALL dp.describe_column('login', 'at');
CALL dp.describe_column('login', 'who');
CALL dp.describe_column('device', 'model', domain => '{m0,m1}');
CALL dp.describe_column('event', 'kind', domain => '{k1,k2,k3}');
CALL dp.describe_column('event', 'size', bounds => '{0,1000}');
CALL dp.describe_column('session', 'id');

DO $$
DECLARE r regclass;
BEGIN
  FOR r IN SELECT relation FROM (SELECT c.oid::regclass AS relation FROM pg_class c WHERE c.relnamespace = 'audit'::regnamespace AND c.relkind = 'r') t LOOP
    CALL dp.publish(r);
  END LOOP;
END $$;
REVOKE SELECT ON shut FROM dp_owner;
CALL dp.allot('alice', 'clinic', epsilon => 20);
CALL dp.allot('alice', 'lab', epsilon => 8);
CALL dp.allot('alice', 'shop', epsilon => 20);
CALL dp.allot('alice', 'web', epsilon => 12);
CALL dp.allot('alice', 'pay', epsilon => 11);
CALL dp.allot('alice', 'trade', epsilon => 11);
CALL dp.allot('bob', 'clinic', epsilon => 0.3);
CALL dp.allot('bob', 'lab', epsilon => 1);
CALL dp.allot('bob', 'shop', epsilon => 1);
CALL dp.allot('bob', 'web', epsilon => 1);
