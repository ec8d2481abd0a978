"""`python -m bench.causes [--labelled N] [--clean N] [--seed S]`: part of a set, printed as JSON."""

from __future__ import annotations

import argparse
import json

from bench.causes import scored
from tracelake.recorder.simulate.labelled import clean, labelled


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.causes", description=__doc__)
    parser.add_argument("--labelled", type=int, default=0)
    parser.add_argument("--clean", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    jobs = [*labelled(given.seed, given.labelled), *clean(given.seed, given.clean)]
    print(json.dumps(scored(jobs, given.seed), indent=1))


if __name__ == "__main__":
    main()
