"""How figures look, and how they become PNG and SVG: legible on light and dark pages, equal bytes for equal data."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

INK = "#1c2128"  # black on the PNG's white; in the page it becomes the colour of the text
FAINT = "#808a96"  # a grey between the two backgrounds
# Between Okabe and Ito's colours and mid-tones: told apart by the colour-blind, and seen on white as on black.
COLOURS = ("#2f81c7", "#e0762f", "#199a74", "#c065a8", "#b8942a", "#4fb3dc", "#d2504b", "#8a7bd8")
_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "axes.linewidth": 0.7,
    "axes.grid": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "grid.alpha": 0.28,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "image.interpolation": "none",  # the points as they are, and in SVG one pixel each
    "svg.fonttype": "path",
    "svg.hashsalt": "mondrian",
}
# For the functions that draw and those that save: it holds while they run, and nowhere else.
styled = mpl.rc_context(_STYLE)


def new_figure(width: float, height: float, *, images: bool = False) -> Figure:
    """A figure of `width` by `height` inches; `images` moves panels of fixed shape together."""
    # Not through pyplot: it keeps every figure in a list of its own.
    layout = ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.04, compress=images)
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def grid_lines(ax: Axes, *, axis: Literal["both", "x", "y"] = "both") -> None:
    """Faint lines behind the data."""
    ax.grid(visible=True, which="major", axis=axis)
    ax.set_axisbelow(True)


def plain(text: str) -> str:
    """A user's text for a label: dollars are dollars, and no mathematics that may not parse."""
    return text.replace("$", r"\$")


def largest(values: Iterable[float]) -> float:
    """The largest value that is finite and positive; 1 where there is none."""
    return max((value for value in values if 0 < value < np.inf), default=1.0)


def logarithmic(axes: Iterable[Axes], *, decades: int = 12) -> None:
    """A logarithmic y axis, the same for all `axes`, of at most so many decades; linear if nothing is positive."""
    axes = list(axes)
    lines = [np.asarray(line.get_ydata(), dtype=float) for ax in axes for line in ax.lines]
    values = np.concatenate(lines or [np.zeros(0)])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    for ax in axes:
        ax.set_yscale("log")
        if values.max() < 100 * values.min():  # few powers of ten to label: others as well
            near = values.max() < 8 * values.min()
            ax.yaxis.set_major_locator(MaxNLocator(5) if near else LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if values.max() > 10**decades * values.min():  # rounding errors would squeeze everything else together
        axes[0].set_ylim(bottom=values.max() / 10**decades)


def colours(names: Mapping[str, object]) -> dict[str, str]:
    """A colour for each name, in order."""
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}


@dataclass(frozen=True)
class Picture:
    """A figure that has been drawn: `name` of its file, `label` of its tab, `caption` below it."""

    name: str
    label: str
    caption: str
    png: bytes
    svg: str

    @classmethod
    def of(cls, figure: Figure, *, name: str, label: str, caption: str) -> Picture:
        return cls(name, label, caption, png_of(figure), _svg_of(figure, name, f"{label}. {caption}"))


@styled
def png_of(figure: Figure, *, dpi: float = 150) -> bytes:
    """The figure as a PNG on white; its layout is settled by this."""
    # Not through savefig, which draws a figure with a layout twice for each format: laid out once, drawn once each.
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)
    figure.set_layout_engine("none")
    png = io.BytesIO()
    figure.set_facecolor("white")
    figure.set_dpi(dpi)
    FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})
    return png.getvalue()


@styled
def _svg_of(figure: Figure, name: str, description: str) -> str:
    svg = io.StringIO()
    figure.set_facecolor("none")
    FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})
    return _inline(svg.getvalue(), figure, name, description)


def _inline(text: str, figure: Figure, name: str, description: str) -> str:
    """An SVG file as a part of a page, in the colour of the page's text."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)  # a page needs none
    text = re.sub(INK, "currentColor", text, flags=re.IGNORECASE)
    text = re.sub(
        r' id="image\w+"', "", text
    )  # named by content, so equal images have equal names; nobody refers to them
    # Several pictures in one page: the names inside of each must not meet those of another.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    width = figure.get_size_inches()[0] * 112
    opening = f'<svg role="img" aria-label="{escape(description)}" style="max-width:{width:.0f}px"'
    view = re.search(r'viewBox="[^"]*"', text)
    assert view is not None
    return f"{opening} {view.group()}>{text[text.index('>') + 1 :]}"
