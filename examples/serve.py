r"""Serves an ONNX file over HTTP, with LitServe and ONNX Runtime.

    python -m pip install litserve onnxruntime
    python examples/serve.py model.onnx --port 8000

A request is a JSON object with one list per input of the model. A list has a batch
axis. The answer has one list per output:

    curl -X POST http://127.0.0.1:8000/predict \
        -H "Content-Type: application/json" -d '{"words": [[5, 17, 3, 0]]}'

The server needs neither Keras nor keras_attention. The guide "Serve it" explains how
to write the file.
"""

import argparse

import numpy as np

try:
    import litserve
    import onnxruntime
    from fastapi import HTTPException
except ModuleNotFoundError as error:
    command = "python -m pip install litserve onnxruntime"
    raise SystemExit(f"Missing: {error.name}. Run: {command}") from error


class OnnxAPI(litserve.LitAPI):
    """Answers requests with an ONNX file.

    Args:
        path: the ONNX file.
        names: the names of the outputs, in the order of the file; by default, the names
            in the file. Some exporters do not keep the names of the model.
    """

    def __init__(self, path, names=None):
        super().__init__()
        self.path = path
        self.names = names

    def setup(self, device):
        self.session = onnxruntime.InferenceSession(self.path)
        found = [node.name for node in self.session.get_outputs()]
        self.names = self.names or found
        if len(self.names) != len(found):
            raise ValueError(
                "`--names` must name each output of the file. "
                f"Received: {self.names} for {found}"
            )

    def decode_request(self, request):
        """Returns the arrays of a request, in the dtypes of the file."""
        inputs = self.session.get_inputs()
        names = {node.name for node in inputs}
        if names != request.keys():
            raise HTTPException(
                400, f"Inputs must be {sorted(names)}. Received: {sorted(request)}"
            )
        return {node.name: as_array(request[node.name], node) for node in inputs}

    def predict(self, inputs):
        return dict(zip(self.names, self.session.run(None, inputs)))

    def encode_response(self, output):
        return {name: array.tolist() for name, array in output.items()}


def as_array(values, node):
    """Converts nested lists to an array of the dtype that an input needs."""
    dtypes = {"tensor(float)": "float32", "tensor(bool)": "bool"}
    dtype = dtypes.get(node.type, node.type[len("tensor(") : -1])
    try:
        return np.asarray(values, dtype)
    except (TypeError, ValueError) as error:
        message = f"{node.name!r} must be lists of {dtype} of equal length: {error}"
        raise HTTPException(400, message) from error


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="the ONNX file")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--names", nargs="+", help="the outputs, in their order")
    given = parser.parse_args(arguments)
    server = litserve.LitServer(
        OnnxAPI(given.model, given.names), accelerator="cpu", workers_per_device=1
    )
    server.run(host=given.host, port=given.port, generate_client_file=False)


if __name__ == "__main__":
    main()
