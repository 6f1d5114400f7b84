"""Elements of pages: tables, charts with their buttons, sections."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.files.markup import escape


def table_of(caption: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a table; caption and cells are HTML already, names are not."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>\n' for name, cells in rows)
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="table">{table}</div>'


def cells(texts: Sequence[str], best: Sequence[bool]) -> list[str]:
    """Return the cells of a row; those that are best are bold."""
    return [
        f'<td class="best">{text}</td>' if top else f"<td>{text}</td>" for text, top in zip(texts, best, strict=True)
    ]


def chart_of(name: str, caption: str, label: str) -> str:
    """Return the place of the chart with id `name`, its heading `label`, and buttons that save image and data."""
    heading = f"<h3>{escape(label)}</h3>" if label else ""
    text = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    spoken = escape(f"{label}: {caption}" if label and caption else label or caption)
    return (
        f'<figure><div class="top">{heading}{_save_buttons(name, label or caption)}</div>{text}'
        f'<div class="plot" id="{name}" role="img" aria-label="{spoken}"></div></figure>'
    )


def _save_buttons(name: str, label: str) -> str:
    buttons = "".join(
        f'<button type="button" data-save="{form}" data-chart="{name}" '
        f'aria-label="Save {escape(label)} as {form.upper()}">{form.upper()}</button>'
        for form in ("png", "csv")
    )
    return f'<span class="save">{buttons}</span>'


def section_of(name: str, title: str, parts: Sequence[str], lead: str = "") -> str:
    """Return a section with id `name` and the charts `parts`, side by side where there is space; `lead` is HTML."""
    text = f"<p>{lead}</p>" if lead else ""
    return f"""<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{text}
<div class="pair">{"".join(parts)}</div></section>"""
