"""What a results document (schema scd.eval.v1) must look like. An error names the field: modes[3].kl: expected a number.

Only what the report reads is checked; further fields are allowed. A number may be null or absent where a figure does not
apply. What is returned is the document itself.
"""
import json
import math
import os

SCHEMA = "scd.eval.v1"
MAX_BYTES = 64 << 20
GROUPS = ("published", "equal")
ABLATIONS = ("ranks", "rank_h", "patch_layers", "distortion", "calibration_prefixes")


class SchemaError(Exception):
    """The file cannot be read or a field is not what the schema says."""


def load(path):
    try:
        size = os.path.getsize(path)
        if size > MAX_BYTES:
            raise SchemaError(f"{path}: {size} bytes, more than the {MAX_BYTES} that a results document may have")
        with open(path, encoding="utf-8") as file:
            document = json.load(file, parse_constant=_no_constant)
    except OSError as error:
        raise SchemaError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: not JSON: {error}") from error
    try:
        check(document)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None
    return document


def check(document):
    """Raises SchemaError with the path of the first field that is wrong."""
    _expect(isinstance(document, dict), "document", "an object", document)
    _expect(document.get("schema") == SCHEMA, "schema", f'"{SCHEMA}"', document.get("schema"))
    _text(document, "", "created", required=True)
    _texts(document, "", "commands")
    machine = _object(document, "", "machine")
    _text(machine, "machine", "cpu")
    _text(machine, "machine", "os")
    _number(machine, "machine", "cores")
    _number(machine, "machine", "memory_gib")
    _check_pair(_object(document, "", "pair"))
    data = _object(document, "", "data")
    for name in ("windows", "questions"):
        part = _object(data, "data", name)
        _text(part, f"data.{name}", "source")
        for field in ("count", "scored_tokens", "max_tokens"):
            _number(part, f"data.{name}", field)
    _number(document, "", "raw_bytes_per_token")
    _text(document, "", "error")
    interrupted = document.get("interrupted")
    _expect(interrupted is None or isinstance(interrupted, bool), "interrupted", "true or false", interrupted)
    for where, row in _rows(document, "", "modes"):
        _check_mode(row, where)
    latency = _object(document, "", "latency")
    for where, row in _rows(latency, "latency", "rows"):
        _check_latency(row, where)
    for where, ablation in _rows(document, "", "ablations"):
        _check_ablation(ablation, where)
    if document.get("drift") is not None:
        _check_drift(_object(document, "", "drift"))


def _check_pair(pair):
    for side in ("producer", "consumer"):
        part = _object(pair, "pair", side)
        _text(part, f"pair.{side}", "description")
        _text(part, f"pair.{side}", "digest")
    bundle = _object(pair, "pair", "bundle")
    _text(bundle, "pair.bundle", "path")
    _text(bundle, "pair.bundle", "digest")
    _text(pair, "pair", "plan")
    _text(pair, "pair", "backend")
    _number(pair, "pair", "num_layers")
    _number(pair, "pair", "d_kv")


def _check_mode(row, where):
    _text(row, where, "mode", required=True)
    _text(row, where, "row", required=True)
    group = row.get("group")
    _expect(group in GROUPS, f"{where}.group", " or ".join(f'"{g}"' for g in GROUPS), group)
    _text(row, where, "plan")
    _text(row, where, "codec")
    for field in ("native_head", "native_tail", "bytes_per_token", "code_bytes_per_transferred_token", "percent_of_raw",
                  "f1", "exact", "ppl", "kl", "tv", "kl_answer", "first_difference", "ttft_ms_cold",
                  "ttft_ms_codes_ready", "ttft_ms_native"):
        _number(row, where, field)


def _check_latency(row, where):
    _text(row, where, "mode", required=True)
    _text(row, where, "row")
    _number(row, where, "prefix_tokens", required=True)
    measured = row.get("measured")
    _expect(isinstance(measured, bool), f"{where}.measured", "true or false", measured)
    link = _number(row, where, "link_mbit_s")
    _expect(link is None or link > 0, f"{where}.link_mbit_s", "a number over 0, or null for loopback", link)
    for field in ("ttft_ms_cold", "ttft_ms_codes_ready", "ttft_ms_native", "bytes", "wire_ms"):
        _number(row, where, field)
    stages = _object(row, where, "stages_ms")
    for name in stages:
        _number(stages, f"{where}.stages_ms", name)


def _check_ablation(ablation, where):
    name = ablation.get("name")
    _expect(name in ABLATIONS, f"{where}.name", " or ".join(f'"{n}"' for n in ABLATIONS), name)
    for row_where, row in _rows(ablation, where, "rows"):
        for field in ("rank_k", "rank_v", "rank_h", "num_patch_layers", "distortion", "calibration_prefixes",
                      "bytes_per_token", "kl", "ppl", "tv", "kl_answer", "ttft_ms_codes_ready"):
            _number(row, row_where, field)
        _numbers(row, row_where, "patch_layers")


def _check_drift(drift):
    layers = _numbers(drift, "drift", "layers", required=True)
    _number(drift, "drift", "prefixes")
    _number(drift, "drift", "decode_positions")
    _text(drift, "drift", "note")
    for where, curve in _rows(drift, "drift", "curves"):
        _text(curve, where, "mode", required=True)
        _numbers(curve, where, "patch_layers")
        _numbers(curve, where, "violated")
        for field, extra in (("kv_error_k", 0), ("kv_error_v", 0), ("alpha", 0), ("beta", 0), ("eps", 0),
                             ("hidden_error", 1), ("predicted", 1)):
            values = _numbers(curve, where, field, nulls=True)
            expected = len(layers) + extra
            if values and len(values) != expected:
                raise SchemaError(f"{where}.{field}: {len(values)} numbers, expected {expected} for "
                                  f"{len(layers)} layers")


def _join(where, field):
    return f"{where}.{field}" if where else field


def _expect(condition, where, what, value):
    if not condition:
        shown = "nothing" if value is None else json.dumps(value, default=str)
        raise SchemaError(f"{where}: expected {what}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")


def _no_constant(name):
    raise ValueError(f"{name} is no number; a figure that does not apply is null")


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300 and math.isfinite(value)


def _object(parent, where, field):
    value = parent.get(field)
    if value is None:
        return {}
    _expect(isinstance(value, dict), _join(where, field), "an object", value)
    return value


def _rows(parent, where, field):
    rows = parent.get(field)
    if rows is None:
        return
    _expect(isinstance(rows, list), _join(where, field), "a list", rows)
    for index, row in enumerate(rows):
        row_where = f"{_join(where, field)}[{index}]"
        _expect(isinstance(row, dict), row_where, "an object", row)
        yield row_where, row


def _text(parent, where, field, required=False):
    value = parent.get(field)
    _expect(isinstance(value, str) or (value is None and not required), _join(where, field), "a text", value)


def _texts(parent, where, field):
    values = parent.get(field)
    if values is None:
        return
    _expect(isinstance(values, list), _join(where, field), "a list of texts", values)
    for index, value in enumerate(values):
        _expect(isinstance(value, str), f"{_join(where, field)}[{index}]", "a text", value)


def _number(parent, where, field, required=False):
    value = parent.get(field)
    _expect(_is_number(value) or (value is None and not required), _join(where, field),
            "a number" if required else "a number or null", value)
    return value


def _numbers(parent, where, field, required=False, nulls=False):
    values = parent.get(field)
    if values is None and not required:
        return []
    _expect(isinstance(values, list), _join(where, field), "a list of numbers", values)
    for index, value in enumerate(values):
        _expect(_is_number(value) or (nulls and value is None), f"{_join(where, field)}[{index}]", "a number", value)
    return values
