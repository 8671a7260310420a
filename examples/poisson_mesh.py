"""Poisson's equation on perforated squares, each with holes and a mesh of its own: learned, and plotted on triangles.

  python examples/poisson_mesh.py [--recipe poisson/metis] [--scale smoke] [--folder DIR]

The same as `mondrian train experiment=poisson/boxes scale=cpu`, `mondrian evaluate` and `mondrian report`, from
Python; then a domain with more holes than any of those in training. Ten minutes or so on one core. It needs
`pip install -c constraints.txt -e '.[mesh]'`.
"""

import argparse
from pathlib import Path

from mondrian.data.meshes import PerforatedPoisson
from mondrian.evaluation import evaluate
from mondrian.metrics import relative_l2_error
from mondrian.points import Mesh, write_mesh
from mondrian.prediction import predict_on
from mondrian.report import write_report
from mondrian.surrogate import MeshSurrogate
from mondrian.training import train

CROWDED = 1  # a seed with five holes, where training has at most three


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", default="poisson/boxes", choices=["poisson/boxes", "poisson/metis"])
    parser.add_argument("--scale", default="cpu", choices=["smoke", "cpu", "paper"])
    parser.add_argument("--folder", type=Path, help="of the run; by default runs/example/<recipe>")
    arguments = parser.parse_args()

    folder = arguments.folder or Path("runs/example") / arguments.recipe
    run = train(arguments.recipe, f"scale={arguments.scale}", f"run={folder}", progress=True)
    surrogate = run.surrogate(MeshSurrogate)

    results = evaluate(surrogate, run.data(), progress=True, name=run.name)
    results.save(run.evaluation)
    print(results.table())
    page, *_ = write_report([run], run.folder / "report.html")
    print(f"see {page}")

    crowded = PerforatedPoisson(most_discs=12).solve(seed=CROWDED)
    u = predict_on(surrogate, crowded)["u"]
    error = relative_l2_error(u[None, None], crowded.fields["u"][None, None], crowded.point_set().weights).item()
    file = folder / "crowded.vtu"
    write_mesh(file, Mesh(crowded.vertices, crowded.simplices, {**crowded.fields, "predicted": u}))
    print(f"a domain with more holes: relative L2 error {error:.3f}; {file} opens in ParaView")


if __name__ == "__main__":
    main()
