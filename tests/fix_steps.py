"""Steps of a release that wait until a test lets them go: no limit of the engine's own ends that wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fix_cluster import Cluster

HELD = "wait_event = 'PgSleep' AND usename ~ '^dp_channel_'"
HOLDING = """
CREATE TABLE public.held (step int);
CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
  WHILE EXISTS (SELECT FROM public.held h WHERE h.step = NEW.step) LOOP
    PERFORM pg_sleep(0.005);
  END LOOP;
  RETURN NEW;
END $$;
CREATE TRIGGER hold AFTER INSERT ON dp.draft FOR EACH ROW EXECUTE FUNCTION public.hold();
"""


@contextmanager
def held(cluster: Cluster, step: int) -> Iterator[None]:
    """While the block runs, or until `let_go`, nobody's step of that number ends."""
    cluster.execute(f"INSERT INTO public.held VALUES ({step})")
    yield
    let_go(cluster, step)


def let_go(cluster: Cluster, step: int | None = None) -> None:
    cluster.execute("DELETE FROM public.held" + ("" if step is None else f" WHERE step = {step}"))
