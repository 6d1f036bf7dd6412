"""Why an export fails or needs fixed sizes: a pattern of the error, and a sentence."""

REASONS = (
    (
        r"XlaCallModule\n",
        "OpenVINO cannot read the graphs that Keras exports from JAX (“No conversion "
        "rule found for operations: XlaCallModule”).",
    ),
    (
        r"TracerArrayConversionError",
        "`jax2onnx` cannot export the loop that runs until the states converge "
        "(“TracerArrayConversionError”).",
    ),
    (
        r"Non concat axis dimensions must match",
        "`jax2onnx` fixes one size at its value in the traced example (“Non concat "
        "axis dimensions must match”). Specify the sizes.",
    ),
    (
        r"size of tensor a \(0\)|non-empty TensorList",
        "torch's tracer cuts the interface vector of the DNC into empty pieces (“The "
        "size of tensor a (0) must match”).",
    ),
    (
        r"Error when tracing gradients for SavedModel",
        "JAX cannot differentiate a `keras.ops.while_loop` backwards, and a SavedModel "
        "from JAX contains gradients (“Error when tracing gradients”).",
    ),
    (
        r"torch exports a loop over time unrolled",
        "torch unrolls loops over time, so this package refuses an unknown length "
        "(“torch exports a loop over time unrolled”). Specify the length, or export "
        "from TensorFlow or JAX.",
    ),
    (
        r"'split' \(must equal|Eltwise shape infer",
        "torch traces Keras' recurrent layers at length 1 and unrolls them, so the "
        "file fails at other lengths (“Cannot split using values”). Specify the "
        "length.",
    ),
    (
        r"FlexTensorList",
        "If the length is unknown, a loop over time needs TensorFlow's list "
        "operations, which LiteRT lacks (`FlexTensorListReserve`). Specify the sizes.",
    ),
    (
        r"FlexBitwiseAnd",
        "LiteRT lacks the operation `BitwiseAnd`, with which TensorFlow draws random "
        "numbers.",
    ),
    (
        r"No Op registered for Erfc",
        "`tf2onnx` does not support the function Erfc in GELU (“No Op registered for "
        "Erfc”). Export from JAX, or use another activation, such as "
        '`block={"activation": "silu"}`.',
    ),
    (
        r"Required inputs",
        "`tf2onnx` adds an input to a loop that runs until a condition holds "
        "(“Required inputs … are missing”).",
    ),
    (
        r"Failed to export a node.*onnx::Gather",
        "torch cannot export Keras' normalization layers with unknown sizes. Specify "
        "the sizes.",
    ),
    (
        r"enable_gqa",
        "With unknown sizes, torch's exporter does not support grouped heads "
        "(“enable_gqa is True”). Specify the sizes.",
    ),
    (
        r"operator Sort",
        "torch's exporter does not support the stable sort (“operator Sort, Out "
        "parameter is not supported”).",
    ),
    (
        r"Invalid attribute perm",
        "torch's exporter writes an invalid transposition (“Invalid attribute perm”).",
    ),
    (
        r"(TensorList|StatelessWhile|While)\b.*|same number of Parameter nodes",
        "OpenVINO cannot convert the loop in this model or layer (“No conversion rule "
        "found for operations: TensorList”, or “Conversion is failed for: "
        "StatelessWhile”).",
    ),
    (
        r"MatrixDiagV3",
        "OpenVINO cannot convert TensorFlow's identity matrix (“MatrixDiagV3”).",
    ),
    (
        r"TracingCheckError",
        "torch traces the model twice, and the two traces of Keras' layers differ "
        "(“Graphs differed across invocations”).",
    ),
    (
        r"must have the same len|must have shape \(batch|[Ii]ncompatible shapes|"
        r"All dimensions of `value` and `key`",
        "JAX does not know that two unknown sizes are equal, such as those of a "
        "sequence and its mask. Specify the lengths; the batch size may stay unknown.",
    ),
    (
        r"Shape mismatch attempting to re-use buffer",
        "`jax2onnx` gives the same name to two lengths: the length of a story, and the "
        "length of a story with its question (“Shape mismatch attempting to re-use "
        "buffer”). Specify the sizes.",
    ),
    (
        r"arange|sort (currently )?requires static",
        "`jax2onnx` cannot export `arange` or sorting of an unknown length. Specify "
        "the sizes, or export from TensorFlow.",
    ),
    (
        r"Reverse scan",
        "`jax2onnx` does not support a backward loop (“Reverse scan is not "
        "supported”). Set `bidirectional=False`.",
    ),
    (
        r"Unsupported pooling size",
        "`jax2onnx` writes a pooling operation that onnxruntime rejects (“Unsupported "
        "pooling size”).",
    ),
    (
        r"does not match expected type \(tensor\(float\)\)|bound to different types",
        "`jax2onnx` writes an operation in double precision, and onnxruntime rejects "
        "the file (“Type (tensor(double)) of output arg”).",
    ),
    (
        r"LiteRT export requires TensorFlow or PyTorch",
        "Keras has no such exporter.",
    ),
    (
        r"litert-torch",
        "Keras needs the package `litert-torch`, which was not installed for the "
        "measurement. Files exported with `litert-torch` always have fixed sizes.",
    ),
    (
        r"'dict' object has no attribute 'shape'",
        "Keras' exporter fails for every model whose inputs are a dict, even for a "
        "single `keras.layers.Dense` (“'dict' object has no attribute 'shape'”).",
    ),
)
