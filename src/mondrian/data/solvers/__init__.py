"""Solvers for training data: one file for each partial differential equation."""
