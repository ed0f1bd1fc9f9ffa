"""Why a question with alpha and beta about an enabled relation is not answered by Turbo: public facts.

Another mechanism answers it, at a price that is often a multiple; an analyst may want to ask it in another way.
"""

from __future__ import annotations

from pg_epsilon.query.attributes import NotBins
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts
from pg_epsilon.turbo.catalog import TurboCatalog
from pg_epsilon.turbo.request import asked, unfit


def why_not(request: Request, views: TurboCatalog, texts: Texts) -> str | None:
    """The reason in words; None where Turbo answers, is not enabled, or was not asked by accuracy."""
    policy = request.policy
    by_accuracy = request.budget.kind == "accuracy"
    if not by_accuracy or request.kinds or policy.has_user_units:
        return None
    view = views.view(policy)
    if view is None:
        return None
    found = unfit(request, view)
    if found is None:
        try:
            asked(request, view, texts)
        except NotBins as reason:
            found = str(reason)
    return found
