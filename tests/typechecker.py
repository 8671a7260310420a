"""Run-time checks of shapes and types: beartype, to which an int is a float as it is to mypy (PEP 484)."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
