CREATE FUNCTION dp._and_published(reply jsonb, who name, asked jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  id    uuid := (reply #>> '{answer,request_id}')::uuid;
  shows boolean := COALESCE((asked ->> 'shows_grid')::boolean, false);
  bars  jsonb := jsonb_build_object(
    'confidence', reply #> '{answer,notice,confidence}',
    'simultaneous', asked -> 'simultaneous' IS DISTINCT FROM 'false');
  done  jsonb := dp._channel_ask(format('SELECT dp._publish_release(%L, %L, %L, %L, %L, %L)',
                                        id, who, asked ->> 'name', shows, bars, reply #> '{answer,release,rows}'), id);
BEGIN
  RETURN jsonb_set(reply, '{answer,notice,text}', to_jsonb(format(
    '%s; published as %s, %s; sums over it have no bar', reply #>> '{answer,notice,text}', done ->> 'table',
    CASE WHEN shows THEN format('and the grid as dp_release.%I', (asked ->> 'name') || '_answers')
         ELSE 'without the grid, which dp.release_answers shows to you alone' END)));
END $$;
COMMENT ON FUNCTION dp._and_published(jsonb, name, jsonb) IS
  'A reply whose family was published over the channel. asked: the request''s member release.';
REVOKE ALL ON FUNCTION dp._and_published(jsonb, name, jsonb) FROM PUBLIC;
