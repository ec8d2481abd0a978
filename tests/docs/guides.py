"""What stands in the pages of docs/: blocks of code, commands, headings, links."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = tuple(
    ROOT / name
    for name in (
        "README.md",
        "docs/index.md",
        "docs/start-training.md",
        "docs/start-platform.md",
        "docs/start-analyst.md",
        "docs/migration-sagemaker-profiler.md",
        "docs/architecture.md",
        "examples/README.md",
    )
)
"""Pages whose commands stand as a reader types them; the others have synopses too."""
PAGES = tuple(dict.fromkeys((*GUIDES, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md")))

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.M | re.S)
_INDENTED = re.compile(r"(?:^ {4,}\S.*\n|^\n(?= {4,}\S))+", re.M)
_PROGRAM = re.compile(r"\s*(?:(?:[\d*/,-]+ +){5}|\w+=\S+ +)*(?:[\w./-]+/)?(tracelake|tracelake-record)(?: +|$)")
"""Also behind the times of a crontab, and behind variables."""


@dataclass(frozen=True, slots=True)
class Command:
    page: str
    program: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join((self.program, *self.words))}"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return [textwrap.dedent(body) for _, its, body in _FENCED.findall(page.read_text()) if its == language]


def shell_blocks(page: Path) -> list[str]:
    """Indented blocks, and fenced ones of the shell or of no language."""
    text = page.read_text()
    fenced = [block for its in ("", "sh", "bash", "console") for block in blocks(page, its)]
    return [*fenced, *(textwrap.dedent(match[0]) for match in _INDENTED.finditer(_FENCED.sub("", text)))]


def commands(page: Path) -> list[Command]:
    """Each command of ours in the shell blocks, as the shell would split it."""
    return [_command(page, line) for block in shell_blocks(page) for line in _lines(block)]


def _lines(block: str) -> Iterator[str]:
    """Lines of a block that begin a command of ours, with the lines that a quote or backslash joins to them."""
    begun = ""
    for line in block.replace("\\\n", " ").splitlines():
        begun = f"{begun}\n{line}" if begun else line
        if not _PROGRAM.match(begun):
            begun = ""
            continue
        try:
            shlex.split(begun, comments=True)
        except ValueError:
            continue
        yield begun
        begun = ""
    if begun:
        raise ValueError(f"a quote is not closed: {begun}")


def _command(page: Path, line: str) -> Command:
    found = _PROGRAM.match(line)
    if not found:
        raise ValueError(f"no command of ours: {line}")
    words = shlex.split(line[found.end() :], comments=True)
    ends = next((at for at, word in enumerate(words) if word in (">", ">>", "|", "&&", ";")), len(words))
    return Command(name(page), found[1], tuple(words[:ends]))


def synopses(page: Path) -> list[tuple[str, str]]:
    """(program, the rest of the line) of all that begins like a command, in blocks and within text."""
    text = _FENCED.sub("", page.read_text())
    spans = [span for line in re.findall(r"`([^`\n]+)`", text) if (span := line.strip())]
    lines = [line for block in shell_blocks(page) for line in block.splitlines()]
    found = ((match, line) for line in (*spans, *lines) if (match := _PROGRAM.match(line)))
    return [(match[1], line[match.end() :]) for match, line in found]


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    text = _FENCED.sub("", page.read_text())
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in re.findall(r"^#+ (.+)$", text, re.M)]
    return {heading.strip().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """Targets of its links that lie in the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", _FENCED.sub("", page.read_text()))
    return [target for target in found if not re.match(r"[a-z]+:", target)]
