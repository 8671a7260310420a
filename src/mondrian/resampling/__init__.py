"""From some points to others: between grids by one matrix product an axis, inside the cells by what is learned."""

from mondrian.resampling.cross_attention import CrossAttention
from mondrian.resampling.cross_integral import CrossIntegral
from mondrian.resampling.grid_to_grid import ORDER, resample
from mondrian.resampling.learned import LearnedResampler, ResamplerSpec

__all__ = ["ORDER", "CrossAttention", "CrossIntegral", "LearnedResampler", "ResamplerSpec", "resample"]
