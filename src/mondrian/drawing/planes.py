"""A field in a panel: an image of a plane, or a line, with the cuts between subdomains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from mondrian.drawing.style import FAINT
from mondrian.grid import Grid

CUTS = "cuts"  # the label of the lines between subdomains
CLEAR = 8  # subdomains along an axis whose lines do not hide the field
# Without the darkest ends of red and blue: phases of plus and minus one fill whole pictures with them.
SIGNED = LinearSegmentedColormap.from_list("signed", colormaps["RdBu_r"](np.linspace(0.1, 0.9, 256)))
ONE_SIGNED, ERROR = colormaps["viridis"], colormaps["magma"]


@dataclass(frozen=True)
class Limits:
    """A colour map and its ends; `beyond` where values are larger than the upper end."""

    low: float
    high: float
    map: Colormap
    beyond: bool = False

    @classmethod
    def of(cls, values: Iterable[np.ndarray]) -> Limits:
        """White at zero for fields of both signs, from the least to the largest value otherwise."""
        finite = _finite(values)
        low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
        if not low < high:
            middle = low if low == high else 0.0
            return cls(middle - 0.5, middle + 0.5, ONE_SIGNED)
        if low < 0 < high and min(-low, high) > 0.1 * max(-low, high):
            largest = max(-low, high)
            return cls(-largest, largest, SIGNED)
        return cls(low, high, ONE_SIGNED)

    @classmethod
    def of_errors(cls, errors: Iterable[np.ndarray]) -> Limits:
        """From zero to the 99.5th percentile: a few points of a moving front would leave the rest black."""
        finite = _finite(errors)
        high = float(np.quantile(finite, 0.995)) if finite.size else 0.0
        largest = float(finite.max(initial=0.0))
        high = high if high > 0 else largest
        return cls(0.0, high or 1.0, ERROR, beyond=largest > high)


def plane(values: Float[np.ndarray, "*space"]) -> Float[np.ndarray, "x y"]:
    """The field of a plane, or the middle slice of one in space."""
    while values.ndim > 2:
        values = values[..., values.shape[-1] // 2]
    return values


def show(
    ax: Axes,
    values: Float[np.ndarray, "*space"],
    grid: Grid,
    limits: Limits,
    subdomains: Sequence[int] = (),
) -> AxesImage:
    """An image of a field of two or three axes."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    (x, y), (width, height) = grid.origin[:2], grid.extent[:2]
    # Axis 0 is x: to the right in the picture, so the array is turned.
    image = ax.imshow(
        plane(values).T,
        origin="lower",
        extent=(x, x + width, y, y + height),
        cmap=limits.map,
        vmin=limits.low,
        vmax=limits.high,
    )
    draw_cuts(ax, grid, subdomains, colour="black" if limits.map is SIGNED else "white")
    return image


def draw_cuts(ax: Axes, grid: Grid, subdomains: Sequence[int], *, colour: str = FAINT) -> None:
    """Thin lines where a subdomain ends and the next begins, the fainter the more there are."""
    for line, places in zip((ax.axvline, ax.axhline), cuts(grid, subdomains), strict=False):
        faintness = max(1, (len(places) + 1) / CLEAR)
        for place in places:
            line(place, color=colour, alpha=0.4 / faintness, linewidth=0.4, label=CUTS)


def cuts(grid: Grid, subdomains: Sequence[int]) -> list[list[float]]:
    """Where the subdomains end along each of the first two axes."""
    axes = zip(grid.origin[:2], grid.extent[:2], subdomains, strict=False)
    return [[origin + extent * cut / count for cut in range(1, count)] for origin, extent, count in axes]


def bar(
    figure: Figure, image: AxesImage, axes: Sequence[Axes], limits: Limits, *, thinness: int = 18, below: bool = False
) -> Colorbar:
    """A thin colour bar beside `axes`, or below them; `thinness` is its length over its width."""
    made = figure.colorbar(
        image,
        ax=list(axes),
        location="bottom" if below else "right",
        extend="max" if limits.beyond else "neither",
        aspect=thinness,
        pad=0.02,
    )
    assert made.solids is not None
    made.solids.set_rasterized(True)  # one small image in the SVG in place of 256 shapes
    made.outline.set_visible(False)
    made.ax.tick_params(length=2.5, width=0.6)
    made.ax.locator_params(nbins=5)
    return made


def _finite(values: Iterable[np.ndarray]) -> Float[np.ndarray, " value"]:
    whole = np.concatenate([np.ravel(part) for part in values])
    return whole[np.isfinite(whole)]
