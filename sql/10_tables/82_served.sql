CREATE TABLE dp.served (
  request_id uuid NOT NULL REFERENCES dp.release (request_id),
  who        name NOT NULL,
  PRIMARY KEY (request_id, who)
);
COMMENT ON TABLE dp.served IS 'Who was answered from a release that another role paid for: dp.dp_shown shows it to them. Grouped answers, and those of questions that have a member of their own, in the request document; a row the first time, and none again.';
SELECT pg_catalog.pg_extension_config_dump('dp.served', '');
