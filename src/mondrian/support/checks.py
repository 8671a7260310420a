"""Checks of arguments that many constructors share."""

from __future__ import annotations


def positive(**sizes: int) -> None:
    """Refuse sizes below one, by name."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} must be at least 1")


def fraction(**values: float) -> None:
    """Refuse numbers below zero or not below one, by name."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise ValueError(f"{name}={value} must be at least 0 and below 1")
