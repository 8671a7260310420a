"""Resampling: from grid to grid by one matrix product per axis, and learned resamplers inside the cells."""

from mondrian.resampling.cross_attention import CrossAttention
from mondrian.resampling.cross_integral import CrossIntegral
from mondrian.resampling.grid_to_grid import ORDER, resample
from mondrian.resampling.learned import LearnedResampler, ResamplerSpec

__all__ = ["ORDER", "CrossAttention", "CrossIntegral", "LearnedResampler", "ResamplerSpec", "resample"]
