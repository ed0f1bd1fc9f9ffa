-- Run once, in the database that later runs are copied from. The owner is an ordinary role.
CREATE TABLE adult (
  id             integer PRIMARY KEY,
  age            integer,
  workclass      text,
  fnlwgt         integer,
  education      text,
  education_num  integer,
  marital_status text,
  occupation     text,
  relationship   text,
  race           text,
  sex            text,
  capital_gain   integer,
  capital_loss   integer,
  hours_per_week integer,
  native_country text,
  income         text,
  part           text
);
ALTER TABLE adult OWNER TO census_owner;
