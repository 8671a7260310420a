"""The ways to apply a ridge kernel to functions on the points of a cell."""

from __future__ import annotations

from enum import Enum

LARGEST_KERNEL = 2**27  # entries of a kernel that is stored as one matrix: half a gigabyte in single precision


class KernelMethod(Enum):
    """How an operator computes the integral with its kernel; all methods agree up to rounding or a tolerance."""

    DENSE = "dense"  # the whole kernel as one matrix: fastest for few points
    COLLAPSED = "collapsed"  # one matrix between points for each ridge, then one between channels: exact
    SEPARATED = "separated"  # ridges expanded in polynomials: linear in the points, to a tolerance
