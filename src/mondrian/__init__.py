"""Transformers over subdomains that learn the solution operators of partial differential equations."""

from mondrian.grid import Grid
from mondrian.spec import Spec

__version__ = "0.1.0"

__all__ = ["Grid", "Spec"]
