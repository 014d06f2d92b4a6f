"""Writes a GGUF file's model again with every quantised matrix as Q8_0: the same numbers, 8 bits a weight.

Usage: make_q8_0.py IN.gguf OUT.gguf    needs the packages gguf and numpy
"""
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize

PLAIN = (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16)
# The writer sets these itself.
OWN_FIELDS = ("general.architecture", "general.file_type", "general.quantization_version")
MOSTLY_Q8_0 = 7


def copy_fields(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in OWN_FIELDS:
            continue
        kind = field.types[0]
        item = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=item)


def main():
    source, target = sys.argv[1:3]
    reader = GGUFReader(source)
    writer = GGUFWriter(target + ".new", reader.fields["general.architecture"].contents())
    copy_fields(reader, writer)
    writer.add_file_type(MOSTLY_Q8_0)
    writer.add_quantization_version(2)
    for tensor in reader.tensors:
        if tensor.tensor_type in PLAIN:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        blocks = quantize(numbers, GGMLQuantizationType.Q8_0)
        writer.add_tensor(tensor.name, blocks, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(target + ".new", target)


if __name__ == "__main__":
    main()
