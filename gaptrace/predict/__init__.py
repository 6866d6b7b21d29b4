"""What compiling and capturing would buy, predicted from a trace, and scored where they were done.

`predict(analysis)` for one recording, `predict_run(run)` for a run folder. How each figure is
found, and how often it was right: README.md in this folder.
"""

from gaptrace.predict.predict import PredictOptions, Shapes, predict, predict_run

__all__ = ["PredictOptions", "Shapes", "predict", "predict_run"]
