"""Mesh elements cut into simplices, such that neighbours agree on the face between them.

An element is the cone of its first vertex, the one with the smallest number in the mesh, over the faces without that
vertex; a face with four corners is cut in the same way from its own first vertex. The diagonal of a face therefore
depends on the face alone, not on the element.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Corners = tuple[int, ...]

SIMPLICES = {"line": 1, "triangle": 2, "tetra": 3}  # meshio's names of elements, and their dimension
FACES: dict[str, tuple[int, tuple[Corners, ...]]] = {  # the others: dimension, faces in cyclic order
    "quad": (2, ((0, 1), (1, 2), (2, 3), (3, 0))),
    "pyramid": (3, ((0, 1, 2, 3), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4))),
    "wedge": (3, ((0, 1, 2), (3, 4, 5), (0, 1, 4, 3), (1, 2, 5, 4), (2, 0, 3, 5))),
    "hexahedron": (3, ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))),
}
DIMENSIONS = SIMPLICES | {kind: dimension for kind, (dimension, _) in FACES.items()}


def simplices_of(kind: str, elements: NDArray[np.int64]) -> NDArray[np.int64]:
    """The simplices, `(simplex, corner)`, into which elements of a kind, `(element, corner)`, are cut.

    >>> simplices_of("quad", np.array([[7, 4, 5, 6]])).tolist()
    [[4, 5, 6], [4, 6, 7]]
    """
    if kind in SIMPLICES:
        return elements
    simplices = []
    first = elements.argmin(axis=1)
    for corner in range(elements.shape[1]):
        group = elements[first == corner]
        opposite = [list(face) for face in FACES[kind][1] if corner not in face]
        parts = [part for face in opposite for part in _cut(group[:, face])]
        simplices += [np.column_stack([group[:, corner], part]) for part in parts]
    return np.concatenate(simplices)


def _cut(faces: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Faces with four corners, in cyclic order, as two triangles; other faces unchanged."""
    if faces.shape[1] < 4:
        return [faces]
    order = (faces.argmin(axis=1)[:, None] + np.arange(4)) % 4
    rotated = np.take_along_axis(faces, order, axis=1)
    return [rotated[:, [0, 1, 2]], rotated[:, [0, 2, 3]]]
