"""The jars that Spark lacks: fetched once, pinned, checked, kept beside the environment that uses them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import tomllib


class JarsMissing(RuntimeError):
    """A jar is absent, wrong, or cannot be fetched; the text says which and what to do."""


@dataclass(frozen=True)
class Jar:
    """One file of a Maven artifact."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"


def pinned() -> list[Jar]:
    text = resources.files("tracelake.pipelines").joinpath("jars.toml").read_text()
    return [Jar(**jar) for jar in tomllib.loads(text)["jar"]]


def folder() -> Path:
    """Where the jars lie: TRACELAKE_JARS, else in the environment itself."""
    return Path(os.environ.get("TRACELAKE_JARS") or Path(sys.prefix) / "share" / "tracelake" / "jars")


def class_path() -> list[Path]:
    """The pinned jars. Raises JarsMissing where one is absent."""
    paths = [folder() / jar.file_name for jar in pinned()]
    for path in paths:
        if not path.is_file():
            raise JarsMissing(f"{path}: no such jar; run `python -m tracelake.pipelines.jars` once (`make setup` does)")
    return paths


def fetch() -> list[Path]:
    """Fetch what is absent or wrong, through the Ivy that pyspark ships. Raises JarsMissing.

    Each file is checked before it takes its place, so an interrupted or tampered download is never used.
    """
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    for jar in pinned():
        if _sha256(target / jar.file_name) == jar.sha256:
            continue
        with tempfile.TemporaryDirectory(dir=target) as aside:
            found = _retrieve(jar, Path(aside))
            digest = _sha256(found)
            if digest != jar.sha256:
                raise JarsMissing(f"{jar.file_name}: SHA-256 is {digest}, pinned is {jar.sha256}; do not use it")
            found.replace(target / jar.file_name)
    return class_path()


def _retrieve(jar: Jar, aside: Path) -> Path:
    import pyspark

    java = shutil.which("java") or (f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else None)
    if java is None:
        raise JarsMissing("no java on the PATH; install Java 17")
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    with resources.as_file(resources.files("tracelake.pipelines").joinpath("ivysettings.xml")) as settings:
        command = [
            java, f"-Dtracelake.ivy={aside / 'ivy'}", "-cp", str(ivy), "org.apache.ivy.Main",
            "-settings", str(settings),
            "-dependency", jar.group, jar.name, jar.version, "-notransitive", "-types", "jar", "-warn",
            "-retrieve", str(aside / "[artifact]-[revision].[ext]"),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    found = aside / jar.file_name
    if done.returncode or not found.is_file():
        words = (done.stdout + done.stderr).strip().splitlines()
        raise JarsMissing(f"{jar.group}:{jar.name}:{jar.version}: Ivy could not fetch it ({' '.join(words[-3:])})")
    return found


def _sha256(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


if __name__ == "__main__":
    try:
        for each in fetch():
            print(each)
    except JarsMissing as error:
        sys.exit(f"tracelake: {error}")
