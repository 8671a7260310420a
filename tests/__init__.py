from tests import typechecker as typechecker  # named by the option --jaxtyping-packages
