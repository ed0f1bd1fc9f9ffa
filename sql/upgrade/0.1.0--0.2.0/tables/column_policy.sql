ALTER TABLE dp.column_policy ADD COLUMN max_rows_per_value bigint CHECK (max_rows_per_value > 0);
