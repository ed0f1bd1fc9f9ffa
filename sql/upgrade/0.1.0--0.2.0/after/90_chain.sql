-- one link over everything that is older than the chain: the last thing that writes a ledger row or a release
SELECT dp._chain_upgrade();
