"""All tests in two processes: those without Spark mostly wait, so they run beside those that compute.

What they said comes last. Arguments are those of pytest. A shell would have its background process ignore interrupts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOG = Path("build/others.log")


def main() -> int:
    pytest = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    with LOG.open("w") as log:
        others = subprocess.Popen([*pytest, "-m", "not spark", "-p", "no:cacheprovider"], stdout=log, stderr=log)
    try:
        spark = subprocess.run([*pytest, "-m", "spark"], check=False).returncode
        code = others.wait()
    finally:
        others.terminate()
    print(LOG.read_text(errors="replace"))
    return spark or code


if __name__ == "__main__":
    sys.exit(main())
