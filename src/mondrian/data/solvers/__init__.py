"""Solvers that make training data: one partial differential equation a file."""
