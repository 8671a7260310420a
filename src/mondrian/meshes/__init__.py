"""The former place of data sets, training and evaluation on meshes; its names are loaded from where they are now."""

from mondrian.support.former import former_names

__getattr__ = former_names(__name__)
