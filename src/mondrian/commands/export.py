"""Write a trained model as one file that runs without mondrian: a program of torch.export, or ONNX.

  mondrian export runs/ac -o surrogate.pt2 --points 64x64       for torch
  mondrian export runs/ac -o surrogate.onnx --points 64x64      for onnxruntime and others (extra `onnx`)
  mondrian export runs/ac -o film.pt2 --points 64x64 --steps 20
  mondrian export runs/ac -o fine.onnx --points 64x64 --out-points 129vx129v --grid 4x4

The program predicts at a fixed number of points for any number of samples. Inputs and outputs are in physical units,
with the channels that `mondrian predict runs/ac` lists. --steps, --grid and --out-points are those of `mondrian
predict`. Before the program is written, its predictions are compared with those of the model. To run it:

  import torch
  program = torch.export.load("surrogate.pt2").module()
  with torch.no_grad():
      y = program(x)                                            x: (batch, channel, *points)

  import onnxruntime
  session = onnxruntime.InferenceSession("surrogate.onnx")
  (y,) = session.run(["y"], {"x": x})

The file describes inputs and outputs as JSON: torch.export.load("surrogate.pt2", extra_files=about) with
about = {"mondrian.json": ""}, or session.get_modelmeta().custom_metadata_map["mondrian"]. ONNX cannot express the
Fourier transforms of FNO and its relatives, and onnxruntime has no float64 and no bfloat16: they go to .pt2.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mondrian.commands._options import Parser, box, points_of, with_points
from mondrian.prediction import Predictor, load_model
from mondrian.support.text import memory_text


def run(arguments: list[str]) -> None:
    """Write the program and print its inputs and outputs."""
    options = _parser().parse_args(arguments)
    model = load_model(options.artefact)
    own, points = Predictor(model).box, points_of(options.points)
    grid = own if options.grid is None else box(options.grid, own)
    out_grid = None if options.out_points is None else with_points(options.out_points, grid)
    predictor = Predictor(model, grid=grid, out_grid=out_grid, applications=options.steps)

    from mondrian.prediction.program import write_program  # torch.export takes a second to import

    print(f"writing {options.output}: up to a minute, since the program is traced, run and compared", file=sys.stderr)
    write_program(predictor, options.output, points)
    size = memory_text(Path(options.output).stat().st_size)
    shape = " x ".join(map(str, points)), " x ".join(map(str, out_grid.points if out_grid else points))
    print(f"{options.output}: {size}")
    print(f"in   x: (batch, {len(predictor.in_names)}, {shape[0]})  {', '.join(predictor.in_names)}")
    print(f"out  y: (batch, {len(predictor.out_names)}, {shape[1]})  {', '.join(predictor.out_names)}")


def _parser() -> Parser:
    parser = Parser("export")
    parser.add_argument("artefact")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--points", required=True)
    parser.add_argument("--grid")
    parser.add_argument("--out-points")
    parser.add_argument("--steps", type=int, default=1)
    return parser
