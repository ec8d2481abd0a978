"""`python -m bench.scale [--times X]`: all sizes, scaled, printed as JSON."""

from __future__ import annotations

import argparse
import json

from bench.scale import measure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--times", type=float, default=1.0, help="multiplies the kernels of every size")
    print(json.dumps(measure(parser.parse_args().times), indent=1))


if __name__ == "__main__":
    main()
