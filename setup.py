"""What pyproject.toml cannot say: the recorder's C part, and the names that old training scripts import.

Where no C compiler is, everything but GPU events through CUPTI still works, so a failure here is a note, not an error.
TRACELAKE_SHIM_CC names another compiler, as a command line; `make wheels` uses it to build for other platforms.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import lru_cache
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

NATIVE = Path(__file__).parent / "recorder" / "native"
LIBRARY = "libtracelake_shim.so"
FLAGS = ["-O2", "-std=gnu11", "-fPIC", "-shared", "-Wall", "-Wextra", "-s"]

# Python runs this line at each start (twice in a virtual environment): it imports only sys, and adds a finder that is
# asked last, so that the original packages win where they are installed. It finds nothing once tracelake is gone.
NAMES_FILE = "tracelake_names.pth"
NAMES_LINE = (
    "import sys; any(getattr(each, '__name__', '') == 'TracelakeNames' for each in sys.meta_path) "
    "or sys.meta_path.append(type('TracelakeNames', (), {'find_spec': staticmethod("
    "lambda name, path=None, target=None: None if name not in ('smppy', 'smprof') "
    "or __import__('importlib.util', fromlist=['find_spec']).find_spec('tracelake') is None "
    "else __import__('tracelake.recorder.compat', fromlist=['spec']).spec(name))}))\n"
)


@lru_cache(maxsize=1)
def compiled() -> Path | None:
    """The library, freshly compiled into a temporary folder; None, with a note, where that does not work."""
    command = shlex.split(os.environ.get("TRACELAKE_SHIM_CC", "cc"))
    if not command or shutil.which(command[0]) is None:
        return without(f"no C compiler ({' '.join(command) or 'empty TRACELAKE_SHIM_CC'})")
    library = Path(tempfile.mkdtemp(prefix="tracelake-shim-")) / LIBRARY
    done = subprocess.run(
        [*command, *FLAGS, str(NATIVE / "shim.c"), "-o", str(library), "-ldl", "-lpthread"],
        capture_output=True,
        text=True,
    )
    return library if done.returncode == 0 else without(f"{' '.join(command)} failed:\n{done.stderr}")


def without(reason: str) -> None:
    print(
        f"tracelake: {reason}\ntracelake: installing without {LIBRARY}; the recorder will not see GPU kernels. "
        "Install a compiler and then tracelake again, or a wheel for this platform.",
        file=sys.stderr,
    )


class BuildPython(build_py):
    def run(self) -> None:
        super().run()
        root = self.wheel_root()
        native = NATIVE if self.editable_mode else root / "tracelake" / "recorder" / "native"
        # One of an earlier build may be of another platform, or of other sources.
        (native / LIBRARY).unlink(missing_ok=True)
        if library := compiled():
            # A process that has the old one mapped keeps it: the new one is another file.
            shutil.copy(library, native / f"{LIBRARY}.new")
            (native / f"{LIBRARY}.new").replace(native / LIBRARY)
        (root / NAMES_FILE).write_text(NAMES_LINE)

    def wheel_root(self) -> Path:
        """An editable wheel holds no packages: its root is where the commands that install write."""
        place = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        root = Path(place)
        root.mkdir(parents=True, exist_ok=True)
        return root


class PlatformWheel(bdist_wheel):
    """For every Python, since ctypes loads the library, but for one platform where there is a library.

    Packages stay at the wheel's root, where Spark finds them in a wheel that it got by --py-files.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = True

    def get_tag(self) -> tuple[str, str, str]:
        if compiled() is None:
            return "py3", "none", "any"
        own = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        return "py3", "none", self.plat_name if self.plat_name_supplied else own


setup(cmdclass={"build_py": BuildPython, "bdist_wheel": PlatformWheel})
