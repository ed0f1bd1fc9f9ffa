CREATE FUNCTION dp._period(since timestamptz, per interval, moment timestamptz, OUT begins timestamptz, OUT ends timestamptz)
LANGUAGE sql IMMUTABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  -- in UTC, and every boundary from the origin: a month after 31 January is 28 February, two months after it 31 March
  SELECT (u.origin + greatest(k.last, 0) * per) AT TIME ZONE 'UTC', (u.origin + (greatest(k.last, 0) + 1) * per) AT TIME ZONE 'UTC'
  FROM (SELECT since AT TIME ZONE 'UTC' AS origin, moment AT TIME ZONE 'UTC' AS now) u,
       -- periods so far: a month counts as 30 days here, a year as 365.25, which a fiftieth makes up for
       LATERAL (SELECT floor(extract(epoch FROM u.now - u.origin) / extract(epoch FROM per))::bigint AS many) g,
       LATERAL (SELECT max(i) AS last FROM generate_series(greatest(g.many - g.many / 50 * (extract(epoch FROM date_trunc('month', per)) > 0)::integer - 2, 0), greatest(g.many, 0) + 2) i
                WHERE u.origin + i * per <= u.now) k
$$;
COMMENT ON FUNCTION dp._period(timestamptz, interval, timestamptz) IS 'The period of a renewing allotment that a time lies in, from begins up to, but without, ends. Periods are counted from since, in UTC, so that no change of clocks moves them.';
REVOKE ALL ON FUNCTION dp._period(timestamptz, interval, timestamptz) FROM PUBLIC;
