"""Training: any surrogate, from a configuration or from Python, and nothing lost on the way.

run = train("allen_cahn/vit_sepmo", "scale=smoke", "run=runs/first")
surrogate = run.surrogate()          # physical units in and out, any resolution

Names are loaded when they are first used: who reads a run needs no Lightning.
"""

import lazy_loader

from mondrian.support.former import former_names

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = former_names(__name__, otherwise=_load)
