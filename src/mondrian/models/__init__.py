"""Models: the transformer operator and its settings."""

from mondrian.models import baselines
from mondrian.models.settings import nbr_no, swin_no, vit_no
from mondrian.models.transformer import TransformerOperator, TransformerSpec

__all__ = ["TransformerOperator", "TransformerSpec", "baselines", "nbr_no", "swin_no", "vit_no"]
