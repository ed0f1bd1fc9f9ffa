"""What an owner may choose for a view (dp.enable_turbo) → the view that the algorithms take. Defaults: turbo.md §14."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.turbo.bins import Domain
from pg_epsilon.turbo.calibration import Calibration, guaranteed
from pg_epsilon.turbo.histogram import Heuristic
from pg_epsilon.turbo.request import SUM_BITS
from pg_epsilon.turbo.view import View

Check = Callable[[Any], bool]


def _whole(low: int, high: int) -> Check:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def _number(low: float, high: float) -> Check:
    return lambda v: isinstance(v, int | float) and not isinstance(v, bool) and low < v <= high


def _word(*words: str) -> Check:
    return lambda v: v in words


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _rates(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= 100 and all(_number(0, 10)(rate) for rate in value)


def _questions(value: Any) -> bool:
    """Questions by members of a request (docs/internals.md §1): where, keys, aggregates."""
    texts = ("keys", "aggregates")
    return (
        isinstance(value, list)
        and len(value) <= 10_000
        and all(
            isinstance(one, dict)
            and set(one) <= {"where", *texts}
            and isinstance(one.get("where"), str | None)
            and all(isinstance(one.get(name, []), list) for name in texts)
            for one in value
        )
    )


# name → (what it may be, in words; whether a value is)
KNOBS: Mapping[str, tuple[str, Check]] = {
    "mode": ("turbo or pmw", _word("turbo", "pmw")),
    "planner": ("auto or turbo", _word("auto", "turbo")),
    "split": ("tree or flat", _word("tree", "flat")),
    "longest_window": ("a power of two, at most 2^20", lambda v: _whole(1, 2**20)(v) and v & (v - 1) == 0),
    "sv_scope": ("run or window", _word("run", "window")),
    "noise": ("laplace or gaussian", _word("laplace", "gaussian")),
    "convergence": ("empirical or guaranteed", _word("empirical", "guaranteed")),
    "calibration": ("split or printed", _word("split", "printed")),
    "forecast": ("a whole number of at least 1", _whole(1, 10**12)),
    "partitions": ("a whole number of at least 1", _whole(1, 2**20)),
    "workload": ("a list of questions, each {where, keys, aggregates}", _questions),
    "queries": ("a whole number of at least 1", _whole(1, 10**12)),
    "failure": ("above 0 and below 1", lambda v: _number(0, 1)(v) and v < 1),
    "learning_rates": ("one rate, or several: 50 updates each", _rates),
    "c0": ("a whole number", _whole(0, 10**9)),
    "s0": ("a whole number", _whole(0, 10**9)),
    "per_bin": ("true or false", _flag),
    "tau": ("above 0 and at most 0.5", _number(0, 0.5)),
    "bypass_limit": ("a whole number", _whole(0, 10**9)),
    "warm_start": ("true or false", _flag),
    "mix": ("above 0 and at most 1", _number(0, 1)),
    "free_only": ("true or false", _flag),
}


_WORKLOAD = """For example {"workload": [{"where": "age >= 65"}, {"keys": ["sex"]}]}: names in quotes, keys a list."""


def is_auto(settings: Mapping[str, Any]) -> bool:
    """Whether the planner chooses the path; what only Turbo's own algorithms have leaves it no choice."""
    own = settings.get("mode") == "pmw" or settings.get("convergence") == "guaranteed"
    return settings.get("planner", "auto") == "auto" and not own


def check(settings: Mapping[str, Any]) -> None:
    """DP005 for a knob that does not exist or has no such value."""
    for name, value in settings.items():
        if name not in KNOBS:
            raise DPError(OUT_OF_RANGE, f"unknown setting {name:.60}", f"Settings: {', '.join(KNOBS)}.")
        words, right = KNOBS[name]
        if not right(value):
            hint = _WORKLOAD if name == "workload" else f"Leave {name} out for the default."
            raise DPError(OUT_OF_RANGE, f"{name} must be {words}", hint)


def view_of(domain: Domain, alpha: Decimal, beta: Decimal, settings: Mapping[str, Any], *, partitioned: bool) -> View:
    """The view with these settings, which `check` accepts. DP005 for an accuracy out of range."""
    _check_forecast(settings, partitioned)
    heuristic = _heuristic(settings, partitioned)
    prices = Calibration(
        Fraction(alpha),
        Fraction(beta),
        printed=settings.get("calibration") == "printed" or settings.get("mode") == "pmw",
        gaussian=settings.get("noise") == "gaussian",
    )
    if settings.get("convergence") == "guaranteed":
        if partitioned or prices.gaussian or settings.get("mode") == "pmw":
            raise DPError(
                OUT_OF_RANGE,
                "guaranteed convergence is proved for one node with Laplace noise",
                "Leave convergence out, or enable the view without partition_by.",
            )
        found = guaranteed(
            prices.alpha,
            prices.beta,
            domain.bins,
            settings.get("queries", 10_000),
            Fraction(str(settings.get("failure", 0.1))),
        )
        heuristic = replace(heuristic, rates=((0.0, found.rate),), tau=found.tau)
        prices = found.calibration
    return View(
        domain,
        prices,
        heuristic,
        mode=settings.get("mode", "turbo"),
        bits=SUM_BITS,
        planner=settings.get("split", "tree"),
        longest=settings.get("longest_window"),
        scope=settings.get("sv_scope", "run"),
        warm=settings.get("warm_start", partitioned),
        mix=float(settings.get("mix", 0.0)),
        free_only=settings.get("free_only", False),
    )


def _check_forecast(settings: Mapping[str, Any], partitioned: bool) -> None:
    """A partition's rent goes by questions / partitions (rent.py): one number says nothing without the other."""
    if partitioned and ("forecast" in settings) != ("partitions" in settings):
        raise DPError(
            OUT_OF_RANGE,
            "a forecast of questions on partitions is for a number of partitions",
            'Give both, {"forecast": 10000, "partitions": 365} for example, or leave both out.',
        )
    if not partitioned and "partitions" in settings:
        raise DPError(OUT_OF_RANGE, "partitions is for views with partition_by", "Leave partitions out.")


def _heuristic(settings: Mapping[str, Any], partitioned: bool) -> Heuristic:
    default = Heuristic(c0=50) if partitioned else Heuristic()
    rates = settings.get("learning_rates")
    schedule = default.rates
    if rates is not None:
        schedule = tuple((50.0 * (i + 1), float(rate)) for i, rate in enumerate(rates[:-1]))
        schedule = (*schedule, (math.inf, float(rates[-1])))
    return replace(
        default,
        c0=settings.get("c0", default.c0),
        s0=settings.get("s0", default.s0),
        per_bin=settings.get("per_bin", True),
        rates=schedule,
        tau=float(settings.get("tau", default.tau)),
        bypass_limit=settings.get("bypass_limit"),
    )
