-- The update runs functions of the new Python package; a session that has the older one loaded keeps it.
DO LANGUAGE plpython3u $$
from pg_epsilon._version import VERSION
if VERSION != "0.2.0":
    plpy.error(
        f"this session has loaded version {VERSION} of the Python package pg_epsilon, and 0.2.0 is needed",
        hint="Install the package 0.2.0 for the server's Python, then run ALTER EXTENSION pg_epsilon UPDATE in a new session.",
        sqlstate="DP006",
    )
$$;
