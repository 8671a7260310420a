"""Models: the transformer operator and its factories, the U-Net operator, models on points, and baselines."""

from mondrian.models import baselines
from mondrian.models.coarsening import Coarsening, FewerPoints, LargerSubdomains
from mondrian.models.factories import FlowNO, NbrNO, SwinNO, UNetNO, ViTNO, flow_no, nbr_no, swin_no, unet_no, vit_no
from mondrian.models.fields import FieldSpec
from mondrian.models.maps import AttentionMap, attention_map
from mondrian.models.points import PointNO, PointOperator, PointSpec, point_no
from mondrian.models.transfer import CrossAttentionTransfer, OperatorTransfer, SmoothTransfer, Transfer
from mondrian.models.transformer import TransformerOperator, TransformerSpec
from mondrian.models.unet import UNetOperator, UNetSpec
from mondrian.support.former import former_names

__all__ = [
    "AttentionMap",
    "Coarsening",
    "CrossAttentionTransfer",
    "FewerPoints",
    "FieldSpec",
    "FlowNO",
    "LargerSubdomains",
    "NbrNO",
    "OperatorTransfer",
    "PointNO",
    "PointOperator",
    "PointSpec",
    "SmoothTransfer",
    "SwinNO",
    "Transfer",
    "TransformerOperator",
    "TransformerSpec",
    "UNetNO",
    "UNetOperator",
    "UNetSpec",
    "ViTNO",
    "attention_map",
    "baselines",
    "flow_no",
    "nbr_no",
    "point_no",
    "swin_no",
    "unet_no",
    "vit_no",
]

__getattr__ = former_names(__name__)
