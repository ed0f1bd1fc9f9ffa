// postgres.js: what test_node_postgresjs.py looks at.
import postgres from "postgres";
import { BY_CODE, COUNT, RAW, facts, refusal, run } from "./scenarios.mjs";

const { user, password, database, host } = facts;
const settings = { user, password, database, host, port: facts.recorded, max: 1, onnotice: () => {}, connection: { application_name: "postgres.js" } };

async function connected(work, more = {}) {
  const sql = postgres({ ...settings, ...more });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

const tls = (ssl) => ({ port: facts.port, host: "localhost", ssl });
const count = (sql) => sql`SELECT count(*) FROM samples WHERE whole > ${250}`.then(([row]) => row.count);

// As the library sends it: text, of the type that the server's Describe names.
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
  date: ["day > $1", new Date("2024-05-17T00:00:00Z")],
  timestamp: ["at > $1", "2024-01-17 12:30:00"],
  timestamptz: ["moment > $1", new Date("2024-01-18T12:00:00Z")],
  time: ["clock > $1", "04:30"],
  uuid: ["uid > $1", "00000000-0000-0000-0000-000000000254"],
  null: ["word IS NOT DISTINCT FROM $1::text", null],
};

const scenarios = {
  connect: () => connected(async (sql) => (await sql`SELECT session_user || current_setting('application_name') AS who`)[0].who),
  tls: () => connected(count, tls({ ca: facts.ca })),
  "another certificate": async () => (await refusal(connected(count, tls({})))).code,
  "another password": () => refusal(connected(count, { password: "wrong" })),

  parameters: () =>
    connected(async (sql) => {
      const found = {};
      for (const [name, [condition, given]] of Object.entries(PARAMETERS)) {
        const text = `SELECT count(*) FROM samples WHERE ${condition}`;
        const once = (await sql.unsafe(text, [given]))[0].count;
        const prepared = (await sql.unsafe(text, [given], { prepare: true }))[0].count;
        const again = (await sql.unsafe(text, [given], { prepare: true }))[0].count;
        found[name] = [text, once, prepared, again];
      }
      return found;
    }),
  "without prepared statements": () => connected((sql) => Promise.all([count(sql), count(sql)]), { prepare: false }),
  "without asking for types": () => connected(count, { fetch_types: false }),
  fragments: () =>
    connected(async (sql) => {
      const where = sql`WHERE ${sql("whole")} > ${250} AND code IN ${sql(["c1", "c2", "c3"])}`;
      const rows = await sql`SELECT ${sql(["code"])}, count(*)::int AS n FROM ${sql("samples")} ${where} GROUP BY code ORDER BY code`;
      return [rows.map((row) => row.code), typeof rows[0].n, rows.count, rows.command];
    }),
  describe: () =>
    connected(async (sql) => {
      const { types, columns } = await sql`SELECT code, count(*) AS n FROM samples WHERE whole > ${250} AND word = ${"x"} GROUP BY code`.describe();
      return [types, columns.map((column) => [column.name, column.type])];
    }),
  "an array, of a type that was asked for": () =>
    connected(async (sql) => {
      const first = await count(sql);
      const [row] = await sql`SELECT ARRAY[count(*), 1] AS a, ${sql.array([1, 2], 23)}::int[] AS b FROM samples WHERE whole > 250`;
      return [row.a[0] === first, row.a[1], row.b];
    }),
  "values and raw": () =>
    connected(async (sql) => {
      const values = await sql.unsafe(BY_CODE).values();
      const raw = await sql.unsafe(BY_CODE).raw();
      return [values.length, raw.every(([code, n], i) => `${code}` === values[i][0] && `${n}` === values[i][1])];
    }),
  cursor: () =>
    connected(async (sql) => {
      const batches = [];
      await sql.unsafe(BY_CODE).cursor(4, (rows) => { batches.push(rows.map((row) => row.code)); });
      const early = [];
      await sql`SELECT code, count(*) FROM samples WHERE id > ${-1} GROUP BY code ORDER BY code`.cursor(3, (rows) => { early.push(rows.length); return sql.CLOSE; });
      const iterated = [];
      for await (const rows of sql.unsafe(BY_CODE).cursor(6)) iterated.push(rows.length);
      const each = [];
      await sql.unsafe(BY_CODE).forEach((row) => { each.push(row.code); });
      return { batches, early, iterated, each: each.length, after: await count(sql) };
    }),
  refusals: () =>
    connected(async (sql) => [
      await refusal(sql.unsafe(RAW)),
      await refusal(sql`SELECT word FROM samples WHERE id = ${1}`),
      await refusal(sql`SELECT count(*) FROM samples WHERE 1 / (whole - ${3}::int) > 0`),
      await refusal(sql`SELECT count(*) FROM samples WHERE nothing > 0`),
      await refusal(sql`DELETE FROM samples`),
      await refusal(sql`SELECT word FROM samples`.cursor(3, () => {})),
      (await sql`SELECT word FROM samples`.describe()).columns.map((column) => column.name),
      await count(sql),
    ]),
  transaction: () =>
    connected(async (sql) => {
      const first = await count(sql);
      const inside = await sql.begin("isolation level repeatable read", async (tx) => {
        await tx`CREATE TEMP TABLE kept (n bigint) ON COMMIT DROP`;
        const refused = await tx.savepoint(async (inner) => { await inner`INSERT INTO kept SELECT count(*) FROM samples`; await inner.unsafe(RAW); }).catch((error) => error.code);
        await tx`INSERT INTO kept SELECT count(*) FROM samples WHERE whole > 250`;
        return [refused, (await tx`SELECT n FROM kept`).map((row) => row.n)];
      });
      const failed = await refusal(sql.begin(async (tx) => { await tx.unsafe(RAW); }));
      return { first, inside, failed: failed.code, after: await count(sql) };
    }),
  simple: () =>
    connected(async (sql) => {
      const results = await sql`SELECT 1 AS n; SELECT count(*) AS n FROM samples WHERE whole > 250; SELECT 3 AS n`.simple();
      return [results.map((rows) => rows[0].n), (await refusal(sql.unsafe(`SELECT 1; ${RAW}`).simple())).code, await count(sql)];
    }),
  "many in one pipeline": () =>
    connected(async (sql) => {
      const work = Array.from({ length: 20 }, (_, i) => (i === 7 ? sql.unsafe(RAW).catch((error) => error.code) : count(sql)));
      const found = await Promise.all(work);
      return [found[7], [...new Set(found.filter((_, i) => i !== 7))]];
    }),
  pool: () => connected(async (sql) => [...new Set(await Promise.all(Array.from({ length: 12 }, () => count(sql))))], { ...tls({ ca: facts.ca }), max: 4 }),
  "copy of an answer": () =>
    connected(async (sql) => {
      const chunks = [];
      for await (const chunk of await sql.unsafe(`COPY (${BY_CODE}) TO STDOUT`).readable()) chunks.push(`${chunk}`);
      return chunks.join("").split("\n");
    }),
  notices: async () => {
    const heard = [];
    const onnotice = ({ severity, code, message }) => heard.push([severity, code, message]);
    await connected(count, { onnotice, connection: { "dp.notices": "on" } });
    return heard;
  },
  notifications: () =>
    connected(async (sql) => {
      const heard = new Promise((done) => { sql.listen("mine", done, () => sql.notify("mine", "hello")); });
      return heard;
    }),
  cancel: () =>
    connected(async (sql) => {
      const query = sql`SELECT pg_sleep(600)`;
      setTimeout(() => query.cancel(), 2000);
      return [(await refusal(query)).code, await count(sql)];
    }),
};

await run(scenarios);
