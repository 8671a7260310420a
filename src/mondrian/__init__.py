"""Transformers over subdomains that learn the solution operators of partial differential equations.

`__init__.pyi` lists the public names. A name is loaded when it is first used, so that the command can answer before
torch is imported.
"""

import lazy_loader

from mondrian.support import former

__version__ = "0.2.0"
former.install()
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = former.former_names(__name__, otherwise=_load)
