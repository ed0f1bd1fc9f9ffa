"""What `make quick` runs beside `make check`: of every suite that needs servers, something of each kind.

A row is a suite (a folder of tests/), a kind, and the node ids that begin so. test_quick_tier.py counts them; a
node id that no test has any more fails `make quick` itself.
"""

from __future__ import annotations

HAPPY, REFUSAL, CONTROL = "happy path", "refusal", "negative control"

QUICK: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "sql",
        HAPPY,
        ("test_counts.py::test_row_statistics_are_exact", "test_cache.py::test_a_repeat_is_free_for_everybody"),
    ),
    ("sql", HAPPY, ("test_chain.py::test_a_charge_and_its_release_are_two_links",)),
    ("sql", REFUSAL, ("test_cache.py::test_an_analyst_without_allotment_gets_no_cached_answer",)),
    ("sql", CONTROL, ("test_planning.py::test_a_gate_that_refuses_whatever_planning_raises_is_caught",)),
    ("privacy", HAPPY, ("test_noise_distribution.py::test_discrete_laplace_is_what_is_charged",)),
    ("privacy", HAPPY, ("test_replay.py::test_the_tap_leaves_the_engine_as_it_was",)),
    ("privacy", REFUSAL, ("test_replay.py::test_sessions_go_where_they_say[lab]",)),
    ("privacy", CONTROL, ("test_noise_distribution.py::test_wrong_laplace_noise_is_rejected",)),
    ("privacy", CONTROL, ("test_replay_joins.py::test_a_broken_engine_is_caught",)),
    ("attacks", HAPPY, ("test_facade_net.py::test_parse_and_describe_stay_normal",)),
    (
        "attacks",
        REFUSAL,
        ("test_facade_net.py::test_error_text", "test_attacks.py::test_an_attack_learns_nothing[plain"),
    ),
    ("attacks", CONTROL, ("test_facade_net.py::test_without_immutable_the_net_answers_zero",)),
    ("attacks", CONTROL, ("test_attacks.py::test_the_states_can_be_told_apart_by_who_may_look",)),
    ("clients", HAPPY, ("test_psql.py::test_a_count_and_its_notice", "test_psycopg.py::test_explicit_calls")),
    ("clients", REFUSAL, ("test_psql.py::test_verbose_errors", "test_psql.py::test_wrong_password_and_unknown_role")),
    ("clients", CONTROL, ("test_login.py::test_a_broken_facade_serves_nobody",)),
    ("crash", HAPPY, ("test_crash.py::test_backends_are_terminated",)),
    ("crash", REFUSAL, ("test_crash.py::test_a_full_ledger_refuses_a_thousand_crumbs",)),
    ("crash", CONTROL, ("test_copies.py::test_the_timeline_alone_tells",)),
    ("fuzz", HAPPY, ("test_fuzz_conversations.py::test_byte_by_byte",)),
    ("fuzz", REFUSAL, ("test_fuzz_conversations.py::test_readers_take_changed_messages_or_refuse_them",)),
    ("fuzz", CONTROL, ("test_fuzz_conversations.py::test_each_client_has_a_conversation",)),
)
BEGINNINGS = tuple(f"tests/{suite}/{name}" for suite, _, names in QUICK for name in names)

if __name__ == "__main__":  # the files that `make quick` collects
    print(*sorted({start.partition("::")[0] for start in BEGINNINGS}))
