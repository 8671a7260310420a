"""Transformers over subdomains that learn the solution operators of partial differential equations.

What the package offers stands in `__init__.pyi`. A name is loaded when it is first used: the command can answer before
torch is there.
"""

import lazy_loader

from mondrian.support import former

__version__ = "0.2.0"
former.install()
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
