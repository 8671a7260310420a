"""Phases in a cube, in 3-D: learn Allen-Cahn at 16^3 points, use it at 24^3 and 48^3.

  python examples/allen_cahn_3d.py [scale=cpu] [any other setting of `mondrian train`]

From the initial field and gamma to the field at t = 6, by a transformer over 4 x 4 x 4 subdomains. Data are simulated
first, at 48^3. Without arguments it takes a minute (scale=smoke) and learns next to nothing. To run it again, add
run=ANOTHER_FOLDER or resume=true.
"""

import sys

from mondrian.evaluation import evaluate
from mondrian.report import write_report
from mondrian.training import train


def main(overrides: list[str]) -> None:
    run = train("allen_cahn3d/staggered", "scale=smoke", *overrides, progress=True)

    surrogate = run.surrogate()  # physical units in and out, any resolution
    results = evaluate(surrogate, run.data(), batch_size=4, progress=True)
    results.save(run.evaluation)
    print(results.table())

    page, *_ = write_report([run], run.folder / "report.html")
    print(f"\nopen {page}; slices through the middle are {page.with_suffix('')}/fields-*.png")

    sample = run.data().dataset("test", (16, 16, 16))[0]
    prediction = surrogate(sample["x"][None], sample["grid"])[0, 0]
    volumes = [(u > 0).float().mean().item() for u in (sample["x"][0], sample["y"][0], prediction)]
    print("share of the cube with u > 0: {:.3f} at the start, {:.3f} at t = 6, {:.3f} predicted".format(*volumes))


if __name__ == "__main__":
    main(sys.argv[1:])
