"""What a simulated comparison looks like: aligned text for a terminal, Markdown, and one offline HTML page."""

from collections.abc import Sequence
from html import escape

from headway.analysis.bakeoff import Bakeoff, Contest
from headway.analysis.intervals import Interval
from headway.analysis.simulate import Row, Simulated

_HEAD = ("policy", "makespan", "over bound", "vs baseline", "95%", "hit", "longest wait")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}rect.bar{fill:#4a7fb5}rect.subject{fill:#d9822b}text{font-size:12px}"
)
_BAR, _WIDTH, _LABEL = 16, 420, 150


def table(result: Simulated) -> str:
    """One setting, as aligned text."""
    cells = [list(_HEAD), *(_cells(row) for row in result.rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([_title(result), *lines])


def markdown(found: Bakeoff) -> str:
    """The whole comparison in Markdown: what it comes to, then a table a setting."""
    parts = ["# Bake-off", "", *_findings(found), "", *_overview(found), ""]
    for contest in found.contests:
        parts += [f"## {contest.result.setting}", "", _title(contest.result), ""]
        parts += _markdown_table(_HEAD, [_cells(row) for row in contest.result.rows])
        parts.append("")
    return "\n".join(parts)


def html(found: Bakeoff) -> str:
    """The same as one page that needs nothing from anywhere else."""
    body = ["<h1>Bake-off</h1>", *(f"<p>{escape(line)}</p>" for line in _findings(found))]
    head, rows = _overview_cells(found)
    body.append(_html_table(head, rows))
    for contest in found.contests:
        body += [f"<h2>{escape(contest.result.setting)}</h2>", f"<p>{escape(_title(contest.result))}</p>"]
        body += [_bars(contest, found.subject), _html_table(_HEAD, [_cells(row) for row in contest.result.rows])]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Headway bake-off</title>'
        f"<style>{_STYLE}</style><body>{''.join(body)}</body></html>\n"
    )


def _title(result: Simulated) -> str:
    binds = ", ".join(f"{name} in {times}" for name, times in sorted(result.binding.items()))
    return (
        f"{result.setting}: {result.seeds} seeds, baseline {result.baseline}, lower bound "
        f"{result.bound_mean:.0f} s in the mean (binding: {binds}); {result.source}"
    )


def _cells(row: Row) -> list[str]:
    hit = f"{row.hit_rate:.3f}"
    if abs(row.expected_hit_rate - row.hit_rate) > 0.005:
        hit += f" (expected {row.expected_hit_rate:.3f})"
    return [
        row.policy,
        f"{row.makespan_mean:.0f} s",
        f"{row.over_bound_mean:.2f}",
        f"{row.vs_baseline_pct:+.1f}%",
        _span(row.vs_baseline_ci),
        hit,
        f"{row.max_wait:.0f} s",
    ]


def _span(span: Interval | None) -> str:
    return "-" if span is None else f"{span[0]:+.1f} to {span[1]:+.1f}"


def _findings(found: Bakeoff) -> list[str]:
    lines = [
        f"Subject: {found.subject}. Percentages say by how much a makespan is shorter, paired over {found.seeds} seeds."
    ]
    if found.gain_over_best_rival is not None:
        lines.append(f"Mean over settings against each one's best rival: {found.gain_over_best_rival:+.1f}%.")
    if found.oracle_over_subject is not None:
        lines.append(f"Who knows every chain's length is ahead of the subject by {found.oracle_over_subject:.1f}%.")
    lines.append(f"Worse by more than noise: {'; '.join(found.losses) or 'nowhere'}.")
    return lines


def _overview_cells(found: Bakeoff) -> tuple[Sequence[str], list[list[str]]]:
    head = (
        "setting",
        "over bound",
        "asked for",
        "vs coupled",
        "vs fifo",
        "vs best static",
        "vs best rival",
        "best rival",
    )
    rows = []
    for contest in found.contests:
        (own,) = [row for row in contest.result.rows if row.policy == found.subject]
        rows.append(
            [
                contest.result.setting,
                f"{own.over_bound_mean:.2f}",
                "-" if contest.allowed is None else f"{contest.allowed:.2f}",
                _gain(contest, "coupled-fifo"),
                _gain(contest, "fifo"),
                _gain(contest, contest.best_static),
                _gain(contest, contest.best_rival),
                contest.best_rival or "-",
            ]
        )
    return head, rows


def _gain(contest: Contest, name: str | None) -> str:
    for versus in contest.versus:
        if versus.policy == name:
            span = "" if versus.ci is None else f" ({_span(versus.ci)})"
            return f"{versus.shorter_pct:+.1f}%{span}"
    return "-"


def _overview(found: Bakeoff) -> list[str]:
    return _markdown_table(*_overview_cells(found))


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = "|".join(["---", *("--:" for _ in head[1:])])
    return [f"| {' | '.join(head)} |", f"|{line}|", *(f"| {' | '.join(row)} |" for row in rows)]


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def _bars(contest: Contest, subject: str) -> str:
    rows = sorted(contest.result.rows, key=lambda row: row.makespan_mean)
    longest = max(row.makespan_mean for row in rows) or 1.0
    shapes = []
    for place, row in enumerate(rows):
        y, width = place * (_BAR + 4), _WIDTH * row.makespan_mean / longest
        kind = "bar subject" if row.policy == subject else "bar"
        shapes.append(
            f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(row.policy)}</text>'
            f'<rect class="{kind}" x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR}"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 12}">{row.makespan_mean:.0f} s</text>'
        )
    height = len(rows) * (_BAR + 4)
    return f'<svg width="{_LABEL + _WIDTH + 80}" height="{height}" role="img">{"".join(shapes)}</svg>'
