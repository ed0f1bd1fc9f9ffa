-- What the owner of the table declares, as census_owner (a member of dp_admin). All of it is public knowledge about the
-- 1994 census form: nothing here was read off the rows.

-- Privacy unit: a row is a person. All answers about these people together: epsilon 4. The price of a statement that
-- names none: 0.1.
CALL dp.create_dataset('people', unit => 'row', epsilon => 4, default_epsilon => 0.1);
CALL dp.protect('public.adult', 'people', max_rows => 100000, scale => 50000);

CALL dp.describe_column('public.adult', 'age', bounds => ARRAY['17', '90'], resolution => '1');
CALL dp.describe_column('public.adult', 'hours_per_week', bounds => ARRAY['1', '99'], resolution => '1');
CALL dp.describe_column('public.adult', 'capital_gain', bounds => ARRAY['0', '99999'], resolution => '1');
CALL dp.describe_column('public.adult', 'education', nullable => false, domain => ARRAY[
  'Preschool', '1st-4th', '5th-6th', '7th-8th', '9th', '10th', '11th', '12th', 'HS-grad', 'Some-college',
  'Assoc-voc', 'Assoc-acdm', 'Bachelors', 'Masters', 'Prof-school', 'Doctorate']);
CALL dp.describe_column('public.adult', 'marital_status', nullable => false, domain => ARRAY[
  'Never-married', 'Married-civ-spouse', 'Married-spouse-absent', 'Married-AF-spouse', 'Separated', 'Divorced', 'Widowed']);
CALL dp.describe_column('public.adult', 'sex', nullable => false, domain => ARRAY['Female', 'Male']);
CALL dp.describe_column('public.adult', 'income', nullable => false, domain => ARRAY['<=50K', '>50K']);

-- Analysts see the table's shape, and may ask. Alice has a quarter of the budget, Bob less; Carol's part is for
-- docs/notebook.ipynb.
CALL dp.publish('public.adult');
CALL dp.allot('alice', 'people', epsilon => 1);
CALL dp.allot('bob', 'people', epsilon => 0.5);
CALL dp.allot('carol', 'people', epsilon => 1);

-- A synthetic copy, adult_syn, which everybody may read: noisy counts of columns and pairs of columns, paid for by
-- dp_planner, and rows drawn from those.
CALL dp.allot('dp_planner', 'people', epsilon => 1.2);
CALL dp.make_synthetic('public.adult', epsilon => 1);

-- Counts of these columns to within 2 % of the table are answered by Turbo, for a small part of the usual price.
CALL dp.enable_turbo('public.adult', '{education,sex,income}', alpha => 0.02, beta => 0.001);
