"""Overrides and YAML become typed settings here, once, at the edge of every command."""
