"""The jars that Spark lacks: fetched once, pinned, checked, kept beside the environment that uses them."""

from __future__ import annotations

import argparse
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


def pinned(*, s3: bool = False) -> list[Jar]:
    """The jars of every lake, and those of S3A where a lake is in a bucket."""
    text = resources.files("tracelake.pipelines").joinpath("jars.toml").read_text()
    listed = tomllib.loads(text)
    return [Jar(**jar) for jar in (*listed["jar"], *(listed["s3"] if s3 else ()))]


def folder() -> Path:
    """Where the jars lie: TRACELAKE_JARS, else in the environment itself."""
    return Path(os.environ.get("TRACELAKE_JARS") or Path(sys.prefix) / "share" / "tracelake" / "jars")


def class_path(*, s3: bool = False) -> list[Path]:
    """The pinned jars. Raises JarsMissing where one is absent."""
    paths = [folder() / jar.file_name for jar in pinned(s3=s3)]
    for path in paths:
        if not path.is_file():
            how = "`python -m tracelake.pipelines.jars --s3`" if s3 else "`python -m tracelake.pipelines.jars`"
            raise JarsMissing(f"{path}: no such jar; run {how} once{'' if s3 else ' (`make setup` does)'}")
    return paths


def fetch(*, s3: bool = False) -> list[Path]:
    """Fetch what is absent or wrong, through the Ivy that pyspark ships. Raises JarsMissing.

    Each file is checked before it takes its place, so an interrupted or tampered download is never used.
    """
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    wanted = [jar for jar in pinned(s3=s3) if _sha256(target / jar.file_name) != jar.sha256]
    with tempfile.TemporaryDirectory(dir=target) as aside:
        if wanted:
            _retrieve(wanted, Path(aside))
        for jar in wanted:
            found = Path(aside) / jar.file_name
            digest = _sha256(found)
            if digest != jar.sha256:
                raise JarsMissing(f"{jar.file_name}: SHA-256 is {digest}, pinned is {jar.sha256}; do not use it")
            found.replace(target / jar.file_name)
    return class_path(s3=s3)


def _retrieve(jars: list[Jar], aside: Path) -> None:
    import pyspark

    java = shutil.which("java") or (f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else None)
    if java is None:
        raise JarsMissing("no java on the PATH; install Java 17")
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    (aside / "ivy.xml").write_text(_ivy_file(jars))
    with resources.as_file(resources.files("tracelake.pipelines").joinpath("ivysettings.xml")) as settings:
        command = [
            java, f"-Dtracelake.ivy={aside / 'ivy'}", "-cp", str(ivy), "org.apache.ivy.Main",
            "-settings", str(settings), "-ivy", str(aside / "ivy.xml"), "-types", "jar", "-warn",
            "-retrieve", str(aside / "[artifact]-[revision].[ext]"),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    absent = [jar for jar in jars if not (aside / jar.file_name).is_file()]
    if done.returncode or absent:
        words = (done.stdout + done.stderr).strip().splitlines()
        named = ", ".join(f"{jar.group}:{jar.name}:{jar.version}" for jar in absent or jars)
        raise JarsMissing(f"{named}: Ivy could not fetch them ({' '.join(words[-3:])})")


def _ivy_file(jars: list[Jar]) -> str:
    """One request for all: each run of Ivy starts a Java."""
    only = 'transitive="false" conf="default->master"'
    wanted = [f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}" {only}/>' for jar in jars]
    head = '<info organisation="tracelake" module="jars"/>'
    return f'<ivy-module version="2.0">{head}<dependencies>{"".join(wanted)}</dependencies></ivy-module>'


def _sha256(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch the pinned jars, and list them.")
    parser.add_argument("--s3", action="store_true", help="those of S3A too, for lakes in a bucket (10 MB)")
    try:
        for each in fetch(s3=parser.parse_args().s3):
            print(each)
    except JarsMissing as error:
        sys.exit(f"tracelake: {error}")


if __name__ == "__main__":
    main()
