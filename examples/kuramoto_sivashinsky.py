"""Chaos on a ring, in 1-D: learn one unit of time of Kuramoto-Sivashinsky, roll it out, draw it in space and time.

  python examples/kuramoto_sivashinsky.py [scale=cpu] [any other setting of `mondrian train`]

Trained over several applications in a row (unroll) at 64 points, evaluated at 64 and finer. Data are simulated
first. Without arguments it takes a minute (scale=smoke) and learns next to nothing. To run it again, add
run=ANOTHER_FOLDER or resume=true.
"""

import sys

from mondrian.evaluation import evaluate
from mondrian.report import write_report
from mondrian.training import train


def main(overrides: list[str]) -> None:
    run = train("kuramoto_sivashinsky/staggered", "scale=smoke", *overrides, progress=True)

    results = evaluate(run.surrogate(), run.data(), horizon=40, progress=True)
    results.save(run.evaluation)
    print(results.table())
    for rollout in results.rollout:
        lasted = rollout.correlation_time.mean - rollout.start
        print(f"{rollout.points[0]:>4} points: correlation with the truth above 0.8 for {lasted:.1f} units of time")

    page, *_ = write_report([run], run.folder / "report.html")
    print(f"\nopen {page}; space-time diagrams are {page.with_suffix('')}/rollout-*.png")


if __name__ == "__main__":
    main(sys.argv[1:])
