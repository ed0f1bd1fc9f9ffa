CREATE FUNCTION dp._probe(request_id uuid) RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
try:
    from pg_epsilon import entry
except Exception as error:
    failed = error
else:
    return entry.probe(request_id)

# The standard library alone from here on: what the administrator has to write, and where.
import glob
import json
import os
import sys

python = 'python%d.%d' % sys.version_info[:2]
folders = [folder for folder in os.environ.get('PYTHONPATH', '').split(':') if folder]


def wrong(folder):
    """Why Python finds nothing in a folder of PYTHONPATH; None where pg_epsilon is there."""
    parents, place = [], folder
    while place not in ('', '/'):
        parents.append(place)
        place = os.path.dirname(place.rstrip('/'))
    for parent in reversed(parents):
        if not os.path.exists(parent):
            return 'the directory %s does not exist' % parent
        if not os.access(parent, os.R_OK | os.X_OK if parent == folder else os.X_OK):
            return 'the user that the server runs as may not read the directory %s' % parent
    if not os.path.exists(os.path.join(folder, 'pg_epsilon')):
        return 'the directory %s holds no package pg_epsilon' % folder
    if 'site-packages' in folder and python not in folder:
        return 'the directory %s is not of %s, which the server uses' % (folder, python)
    return None


missing = failed.name if isinstance(failed, ModuleNotFoundError) else None
if missing == 'pg_epsilon':
    reasons = [reason for reason in map(wrong, folders) if reason]
    problem = "the server's Python finds no package pg_epsilon: " + (
        '; '.join(reasons) if reasons else 'PYTHONPATH is not set where the server starts')
elif missing:
    problem = "the server's Python finds no package %s, which pg_epsilon needs" % missing
else:
    problem = "the server's Python cannot load pg_epsilon: %s" % type(failed).__name__

home = glob.glob('/opt/*/lib/%s/site-packages/pg_epsilon' % python)
home = os.path.dirname(sorted(home)[0]) if home else '/opt/pg_epsilon/lib/%s/site-packages' % python
line = "PYTHONPATH = '%s'" % home
# a backend works in the data directory, which Debian names as the directory of the cluster's settings
cluster = os.getcwd().replace('/var/lib/postgresql/', '/etc/postgresql/', 1)
if cluster.startswith('/etc/postgresql/') and os.path.isdir(cluster):
    hint = 'Write this line into %s/environment and restart the server: %s' % (cluster, line)
else:
    hint = ('Set this where the server starts (on Debian in /etc/postgresql/NN/main/environment) and restart it: %s' % line)
hint += ' (README.md, "Install on a real server", step 1).'
return json.dumps({'request_id': request_id, 'troubles': [{'object': 'PYTHONPATH', 'problem': problem, 'hint': hint}]})
$$;
COMMENT ON FUNCTION dp._probe(uuid) IS 'Channel: what keeps every question from being answered, tried in this backend (packages, versions, encoding, a draw that is thrown away, the parser). Where Python cannot load pg_epsilon, which directory is wrong and what to write. Charges nothing, reads no row.';
REVOKE ALL ON FUNCTION dp._probe(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._probe(uuid) TO dp_channel;
