"""A whole market in one process: hundreds of parties, hosts that die, a clock that jumps; one seed repeats it all.

    python -m tests.sim --seed 1 --commands 1000000

Parts: `people` (buyers and sellers), `fleet` (hosts, agents, rentals), `staff` (operator, payment provider) and `chaos`
(garbage, duplicates, late retries) make commands; `simulation` drives them through the engine. `mirror` and `ledger`
are an independent model folded from events alone, with which `oracle` predicts. `follower` replays every command in
another process and compares each outcome and the last digest. `report` counts and prints.
"""
