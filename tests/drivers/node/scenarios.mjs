// Runs scenarios one after the other and prints what each returned or threw, as one JSON object.
export const facts = JSON.parse(process.env.PG_EPSILON_FACTS);

export const COUNT = "SELECT count(*) FROM samples WHERE whole > 250";
export const BY_CODE = "SELECT code, count(*) AS n FROM samples GROUP BY code ORDER BY code";
export const RAW = "SELECT word FROM samples WHERE id = 1";

// What an error of PostgreSQL carries, and what it must not.
export function told(error) {
  const { code, severity, message, hint, position, where, schema, table, schema_name, table_name, column } = error;
  return { code, severity, message, hint, position, hidden: [where, schema, table, schema_name, table_name, column].filter(Boolean) };
}

export async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return told(error);
  }
  throw new Error("not refused");
}

export async function run(scenarios) {
  const found = {};
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      found[name] = { returned: await scenario() };
    } catch (error) {
      found[name] = { threw: `${error.stack}` };
    }
  }
  const shown = (_, value) => (typeof value === "bigint" ? `${value}` : value === undefined ? null : value);
  process.stdout.write(JSON.stringify(found, shown), () => process.exit(0));
}
