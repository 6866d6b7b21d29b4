from gaptrace.predict.summary import capture_field, compile_field, _cell
from gaptrace.results.codec import from_data
from gaptrace.results.prediction import Capture, Compile, SquareCell
def capture_of(p): return from_data(capture_field(p), Capture, "c")
def compile_of(p): return from_data(compile_field(p), Compile, "c")
def square_of(p): return {k: from_data(_cell(c), SquareCell, k) for k, c in p.square.items()}
