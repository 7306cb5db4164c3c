"""Numbers and tables as people read them: 80 columns, plain ASCII, None as a dash."""

from collections.abc import Sequence

DASH = "-"


def duration(value: float | None) -> str:
    """Seconds to one decimal below a thousand, then minutes, then hours."""
    if value is None:
        return DASH
    if value < 999.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 7200:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 as a percentage."""
    return DASH if share is None else f"{share * 100:.{digits}f}%"


def count(value: float | None) -> str:
    """A whole number, in thousands or millions where it is long."""
    if value is None:
        return DASH
    if value < 100_000:
        return f"{value:,.0f}"
    return f"{value / 1e3:,.1f}k" if value < 1e7 else f"{value / 1e6:,.1f}M"


def number(value: float | None) -> str:
    """A number with one decimal."""
    return DASH if value is None else f"{value:,.1f}"


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` characters and one line, the middle left out where it is longer."""
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    head = (width - 2) // 2
    return f"{line[:head]}..{line[len(line) - (width - 2 - head) :]}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int = 80) -> list[str]:
    """Lines of a table, the first column left-aligned and clipped so that everything fits ``width``."""
    columns = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    room = width - sum(columns[1:]) - 2 * len(columns)
    columns[0] = max(len(head[0]), min(columns[0], room))
    lines = []
    for row in (head, *rows):
        cells = [cell.rjust(column) for cell, column in zip(row[1:], columns[1:], strict=True)]
        lines.append("  ".join(["", clip(row[0], columns[0]).ljust(columns[0]), *cells]).rstrip())
    return lines


def listed(counts: dict[str, int]) -> str:
    """``3 timeout, 1 lost``."""
    return ", ".join(f"{amount:,} {name}" for name, amount in counts.items())


def plural(amount: int, noun: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"
