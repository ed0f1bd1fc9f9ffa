"""What `make test-versions` collects: the files that tests/versions.txt names, without the rest of the tests."""

from __future__ import annotations

from tiers import VERSIONS

FILES = sorted({rule.pattern.partition("::")[0] for rule in VERSIONS})

if __name__ == "__main__":
    print(*FILES)
