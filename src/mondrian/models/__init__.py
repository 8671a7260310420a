"""Models: the transformer operator and its settings, the U-Net made of it, and baselines."""

from mondrian.models import baselines
from mondrian.models.coarsening import Coarsening, FewerPoints, LargerSubdomains
from mondrian.models.fields import FieldSpec
from mondrian.models.points import PointOperator, PointSpec, point_no
from mondrian.models.settings import nbr_no, swin_no, unet_no, vit_no
from mondrian.models.shares import Shares, attention_shares
from mondrian.models.transfer import CrossAttentionTransfer, OperatorTransfer, SmoothTransfer, Transfer
from mondrian.models.transformer import TransformerOperator, TransformerSpec
from mondrian.models.unet import UNetOperator, UNetSpec

__all__ = [
    "Coarsening",
    "CrossAttentionTransfer",
    "FewerPoints",
    "FieldSpec",
    "LargerSubdomains",
    "OperatorTransfer",
    "PointOperator",
    "PointSpec",
    "Shares",
    "SmoothTransfer",
    "Transfer",
    "TransformerOperator",
    "TransformerSpec",
    "UNetOperator",
    "UNetSpec",
    "attention_shares",
    "baselines",
    "nbr_no",
    "point_no",
    "swin_no",
    "unet_no",
    "vit_no",
]
