"""The whole job from Python: train a recipe, evaluate it at three resolutions, write the report, use the model.

  python examples/allen_cahn.py [scale=cpu] [any other setting of `mondrian train`]

The data are simulated first. Without arguments it takes a minute (scale=smoke) and learns next to nothing. To run it
again, add run=ANOTHER_FOLDER or resume=true.
"""

import sys

from mondrian.evaluation import evaluate
from mondrian.report import write_report
from mondrian.training import train


def main(overrides: list[str]) -> None:
    run = train("allen_cahn/vit_sepmo", "scale=smoke", *overrides, progress=True)

    surrogate = run.surrogate()  # physical units in and out, any resolution
    results = evaluate(surrogate, run.data(), progress=True)
    results.save(run.evaluation)
    print(results.table())

    write_report([run], run.folder / "report.html")
    print(f"\nopen {run.folder / 'report.html'}")

    finest = run.data().resolutions("test")[-1]
    sample = run.data().dataset("test", finest)[0]
    prediction = surrogate(sample["x"][None], sample["grid"])
    error = (prediction[0] - sample["y"]).abs().mean().item()
    print(f"first test simulation at {'x'.join(map(str, finest))}: mean absolute error {error:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
