// node-pg and pg-cursor: what test_node_pg.py looks at.
import pg from "pg";
import Cursor from "pg-cursor";
import { BY_CODE, COUNT, RAW, facts, refusal, run } from "./scenarios.mjs";

const { Client, Pool } = pg;
const { user, password, database, host } = facts;
const settings = { user, password, database, host, port: facts.recorded, application_name: "node-pg" };

async function connected(work, more = {}) {
  const client = new Client({ ...settings, ...more });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const tls = (ssl, more = {}) => ({ port: facts.port, host: "localhost", ssl, ...more });
const value = async (client, ...question) => Object.values((await client.query(...question)).rows[0])[0];
const shape = (result) => result.fields.map((field) => [field.name, field.dataTypeID, field.dataTypeModifier, field.format]);
const read = (cursor, rows) => cursor.read(rows);

// Column or expression, and a value as a program holds it.
const PARAMETERS = {
  bool: ["yes = $1", true],
  int2: ["small > $1", 40],
  int4: ["whole > $1", 251],
  int8: ["big > $1", 2520000000000n],
  numeric: ["exact > $1", "284.625"],
  float4: ["single > $1", 63.5],
  float8: ['"double" > $1', 85.5],
  text: ["word = $1", "word 7"],
  escaped: ["word <> $1", "it's \\ \"$1\" ; -- é€😀"],
  varchar: ["code = $1::varchar", "c7"],
  date: ["day > $1", "2024-05-17"],
  timestamp: ["at > $1", "2024-01-17 12:30:00"],
  timestamptz: ["moment > $1", new Date("2024-01-18T12:00:00Z")],
  time: ["clock > $1", "04:30"],
  uuid: ["uid > $1", "00000000-0000-0000-0000-000000000254"],
  null: ["word IS NOT DISTINCT FROM $1::text", null],
};

const scenarios = {
  connect: () => connected((client) => value(client, "SELECT session_user || current_setting('application_name')")),
  tls: () => connected(async (client) => [client.connection.stream.getProtocol(), await value(client, COUNT)], tls({ ca: facts.ca })),
  "channel binding": async () => {
    const client = new Client({ ...settings, ...tls({ ca: facts.ca }, { enableChannelBinding: true }) });
    const chosen = [];
    const send = client.connection.sendSASLInitialResponseMessage.bind(client.connection);
    client.connection.sendSASLInitialResponseMessage = (mechanism, first) => send(chosen.push(mechanism) && mechanism, first);
    await client.connect();
    const answer = await value(client, COUNT);
    await client.end();
    return [chosen, answer];
  },
  "another certificate": async () => (await refusal(connected(() => 0, tls({})))).code,
  "another password": () => refusal(connected(() => 0, { password: "wrong" })),
  "direct tls": () => connected((client) => value(client, COUNT), tls({ ca: facts.ca }, { sslnegotiation: "direct" })),

  parameters: () =>
    connected(async (client) => {
      const found = {};
      for (const [name, [condition, given]] of Object.entries(PARAMETERS)) {
        const text = `SELECT count(*) FROM samples WHERE ${condition}`;
        const plain = await value(client, text, [given]);
        const named = await value(client, { name, text, values: [given] });
        const again = await value(client, { name, values: [given], text });
        found[name] = [text, plain, named, again];
      }
      return found;
    }),
  "columns of an answer": () =>
    connected(async (client) => {
      const text = "SELECT yes, code, count(*), count(*)::numeric(12,3) AS n, now()::date AS d FROM samples GROUP BY yes, code ORDER BY yes, code";
      const result = await client.query(text);
      const arrays = await client.query({ text, rowMode: "array" });
      return { shape: shape(result), rows: result.rows.length, command: result.command, first: result.rows[0], array: arrays.rows[0] };
    }),
  "metadata without rows": () =>
    connected(async (client) => {
      const text = "SELECT column_name, udt_name FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position";
      return (await client.query({ text, values: ["samples"], rowMode: "array" })).rows;
    }),
  "a name with another text": () =>
    connected(async (client) => {
      await client.query({ name: "same", text: COUNT });
      return (await refusal(client.query({ name: "same", text: "SELECT 1" }))).message;
    }),

  refusals: () =>
    connected(async (client) => {
      const found = [
        await refusal(client.query(RAW)),
        await refusal(client.query("SELECT word FROM samples WHERE id = $1", [1])),
        await refusal(client.query({ name: "raw", text: RAW })),
        await refusal(client.query("SELECT count(*) FROM samples WHERE 1 / (whole - $1) > 0", [3])),
        await refusal(client.query("SELECT count(*) FROM samples WHERE nothing > 0")),
        await refusal(client.query("DELETE FROM samples")),
      ];
      return [...found, await value(client, COUNT)];
    }),
  transaction: () =>
    connected(async (client) => {
      await client.query("BEGIN");
      await client.query(`CREATE TEMP TABLE kept AS ${COUNT}`);
      await client.query("SAVEPOINT s");
      const first = await refusal(client.query(RAW));
      const aborted = await refusal(client.query(COUNT));
      await client.query("ROLLBACK TO s");
      const kept = await value(client, "SELECT count FROM kept");
      await client.query("ROLLBACK");
      const gone = await value(client, "SELECT to_regclass('kept')");
      return [first.code, aborted.code, kept === (await value(client, COUNT)), gone];
    }),
  "several statements in one message": () =>
    connected(async (client) => {
      const results = await client.query(`SELECT 1 AS one; ${COUNT}; SELECT 2 AS two`);
      const stopped = await refusal(client.query(`SELECT 1; ${RAW}; ${COUNT}`));
      return [results.map((result) => result.rows[0]), stopped.code];
    }),
  "results in binary": () =>
    connected(async (client) => {
      // Bytes above 127 do not survive in node-pg's own reader: none here.
      const text = "SELECT (count(*) > 0)::int AS one, (count(*) > 0) AS yes, 'x' || $1::text AS word, NULL::int8 AS none FROM samples";
      const result = await client.query({ text, values: ["y"], binary: true });
      return [shape(result).map((column) => column[3]), result.rows[0]];
    }),
  pipeline: () =>
    connected(
      async (client) => {
        const questions = [[COUNT], [RAW], ["SELECT count(*) FROM samples WHERE whole > $1", [250]], ["SELECT 7 AS count"], [{ name: "named", text: COUNT }]];
        const work = questions.map((question) => client.query(...question).catch((error) => error));
        return (await Promise.all(work)).map((result) => result.rows?.[0].count ?? result.code);
      },
      { pipeline: true },
    ),
  notices: () =>
    connected(
      async (client) => {
        const heard = [];
        client.on("notice", ({ severity, code, message }) => heard.push([severity, code, message]));
        await client.query(COUNT);
        return heard;
      },
      { options: "-c dp.notices=on" },
    ),
  notifications: () =>
    connected(async (client) => {
      await client.query("LISTEN mine");
      const heard = new Promise((done) => client.on("notification", ({ channel, payload }) => done([channel, payload])));
      await connected((other) => other.query("NOTIFY mine, 'hello'"));
      return heard;
    }),
  cancel: () =>
    connected(async (client) => {
      const query = new pg.Query("SELECT pg_sleep(600)");
      const ended = new Promise((done) => query.on("error", (error) => done(error.code)).on("end", () => done("end")));
      client.query(query);
      setTimeout(() => new Client(settings).cancel(client, query), 2000);
      return [await ended, await value(client, COUNT)];
    }),
  "a statement's time limit": () =>
    connected(async (client) => [(await refusal(client.query("SELECT pg_sleep(600)"))).code, await value(client, COUNT)], { statement_timeout: 4000 }),

  pool: async () => {
    const pool = new Pool({ ...settings, ...tls({ ca: facts.ca }), max: 3, maxUses: 5 });
    try {
      const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => value(pool, "SELECT count(*) FROM samples WHERE whole > $1", [250 + (i % 2)])));
      const refused = await refusal(pool.query(RAW));
      return { even: [...new Set(answers.filter((_, i) => i % 2 === 0))], odd: [...new Set(answers.filter((_, i) => i % 2))], code: refused.code, after: await value(pool, COUNT) };
    } finally {
      await pool.end();
    }
  },

  cursor: () =>
    connected(async (client) => {
      const rows = (await client.query(BY_CODE)).rows;
      const cursor = client.query(new Cursor("SELECT code, count(*) AS n FROM samples WHERE id > $1 GROUP BY code ORDER BY code", [-1]));
      const batches = [];
      for (let batch = await read(cursor, 4); batch.length; batch = await read(cursor, 4)) batches.push(batch.map((row) => row.code));
      await cursor.close();
      const early = client.query(new Cursor(BY_CODE));
      const first = await read(early, 3);
      await early.close();
      const inside = client.query(new Cursor(`WITH a AS (${BY_CODE}) SELECT * FROM a`, [], { rowMode: "array" }));
      const arrays = await read(inside, 100);
      await inside.close();
      return { batches, first: first.length, same: JSON.stringify(first) === JSON.stringify(rows.slice(0, 3)), arrays: arrays.length, after: await value(client, COUNT) };
    }),
  "a cursor over rows": () =>
    connected(async (client) => {
      const cursor = client.query(new Cursor(RAW));
      const refused = await refusal(read(cursor, 3));
      await cursor.close();
      return [refused.code, await value(client, COUNT)];
    }),
};

await run(scenarios);
