"""What prefill, encoding and rebuilding cost in operations and bytes, and the time that this takes on a device.

An operation is a multiplication or an addition. A device does what is queued one kernel after the other; a kernel takes as
long as its products, its memory traffic or the least that any kernel takes, whichever is longest.
"""
import dataclasses
import math

BF16, F32 = 2, 4


@dataclasses.dataclass(frozen=True)
class Pair:
    """Shape of both models, and what their translators send."""
    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    rank_k: int
    rank_v: int
    rank_h: int
    mlp: int  # hidden units of a Patch aligner
    patch_layers: int
    fused_rank: int  # columns of one layer's code
    fused_share: float  # of raw bf16 bytes, entropy coded
    native_positions: int = 18  # head 1, tail 16, last 1

    @property
    def d_kv(self):
        return self.kv_heads * self.head_dim

    @property
    def d_q(self):
        return self.heads * self.head_dim

    @property
    def layer_weights(self):
        return self.hidden * (2 * self.d_q + 2 * self.d_kv) + 3 * self.hidden * self.intermediate

    @property
    def raw_bytes(self):
        """Of one token and layer in bf16."""
        return 2 * self.d_kv * BF16


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    product_flops: float  # peak, a second
    product_share: float  # of it that a large product reaches
    attention_share: float
    memory_bytes: float  # a second
    memory_share: float
    upload_bytes: float  # host to device, a second; 0: memory is the host's
    multiprocessors: int  # 0: products of every size run alike
    kernel_seconds: float  # the least that a kernel takes
    bytes_per_number: int  # of weights and of products' operands


@dataclasses.dataclass(frozen=True)
class Host:
    """Of the entropy codec: numbers a second of one core, escapes included."""
    cores: int
    encode_numbers: float
    decode_numbers: float


@dataclasses.dataclass(frozen=True)
class Kernel:
    flops: float = 0.0
    moved: float = 0.0  # bytes of device memory, read and written
    rows: int = 0
    columns: int = 0

    def seconds(self, device):
        products = self.flops / (device.product_flops * device.product_share * occupied(self.rows, self.columns, device))
        memory = self.moved / (device.memory_bytes * device.memory_share)
        return max(products, memory, device.kernel_seconds)


def occupied(rows, columns, device, tile=128):
    """Share of the multiprocessors that a product's tiles keep busy, over all its rounds. Depth is not split."""
    if device.multiprocessors == 0 or rows == 0:
        return 1.0
    tiles = math.ceil(rows / tile) * math.ceil(columns / tile)
    return tiles / (math.ceil(tiles / device.multiprocessors) * device.multiprocessors)


def product(rows, columns, depth, device):
    moved = device.bytes_per_number * (columns * depth + rows * depth) + F32 * rows * columns
    return Kernel(2.0 * rows * columns * depth, moved, rows, columns)


def store(rows, columns, device):
    """f32 rows into pages: bias, RoPE and rounding in one pass."""
    return Kernel(moved=rows * columns * (F32 + device.bytes_per_number))


def rebuild_kernels(pair, way, rows, device):
    """Of one layer and `rows` tokens that arrived together."""
    d = pair.d_kv
    convert = Kernel(moved=rows * pair.rank_h * (BF16 + F32))
    if way == "reuse":
        return [k for rank in (pair.rank_k, pair.rank_v) for k in (product(rows, d, rank, device), store(rows, d, device))]
    if way == "patch":
        inner = pair.rank_h + pair.mlp
        return [convert, product(rows, pair.mlp, pair.rank_h, device), Kernel(moved=2 * F32 * rows * pair.mlp),
                product(rows, 2 * d, inner, device), store(rows, d, device), store(rows, d, device)]
    if way == "fused":
        return [product(rows, 2 * d, pair.fused_rank, device), store(rows, d, device), store(rows, d, device)]
    return [Kernel(moved=rows * d * (BF16 + F32))] * 2 + [store(rows, d, device)] * 2  # raw


def encode_kernels(pair, way, rows, device):
    if way == "reuse":
        return [product(rows, rank, pair.d_kv, device) for rank in (pair.rank_k, pair.rank_v)]
    if way == "patch":
        return [product(rows, pair.rank_h, pair.hidden, device)]
    if way == "fused":
        return [product(rows, pair.fused_rank, pair.hidden, device)]
    return [Kernel(moved=rows * 2 * pair.d_kv * (F32 + BF16))]


def code_bytes(pair, way):
    """Of one token and layer on the wire."""
    return {"reuse": BF16 * (pair.rank_k + pair.rank_v), "patch": BF16 * pair.rank_h,
            "fused": pair.fused_share * pair.raw_bytes, "raw": pair.raw_bytes}[way]


def upload_bytes(pair, way):
    """What the consumer copies to its device: bf16 as it came, decoded entropy codes in f32."""
    return F32 * pair.fused_rank if way == "fused" else code_bytes(pair, way)


def plan(pair, mode):
    """mode -> layers of each way."""
    if mode == "scd":
        return {"reuse": pair.layers - pair.patch_layers, "patch": pair.patch_layers}
    return {mode: pair.layers}


def over_layers(pair, mode, of_layer):
    return sum(count * of_layer(way) for way, count in plan(pair, mode).items())


def flops(kernels):
    return sum(k.flops for k in kernels)


def moved(kernels):
    return sum(k.moved for k in kernels)


def rebuild_seconds(pair, mode, tokens, device, frame=256):
    """From codes in memory; copies to the device run beside the kernels."""
    def of_layer(way):
        whole, rest = divmod(tokens, frame)
        kernels = whole * sum(k.seconds(device) for k in rebuild_kernels(pair, way, frame, device))
        if rest:
            kernels += sum(k.seconds(device) for k in rebuild_kernels(pair, way, rest, device))
        copies = tokens * upload_bytes(pair, way) / device.upload_bytes if device.upload_bytes else 0.0
        return max(kernels, copies)
    return over_layers(pair, mode, of_layer)


def encode_seconds(pair, mode, tokens, device):
    return over_layers(pair, mode, lambda way: sum(k.seconds(device) for k in encode_kernels(pair, way, tokens, device)))


def prefill_flops(pair, tokens):
    weights = 2.0 * pair.layers * pair.layer_weights * tokens
    attention = 2.0 * pair.layers * pair.d_q * tokens * tokens  # causal: half of Q K^T and of P V
    return weights, attention


def prefill_seconds(pair, tokens, device):
    weights, attention = prefill_flops(pair, tokens)
    read = device.bytes_per_number * pair.layers * pair.layer_weights / (device.memory_bytes * device.memory_share)
    return max(weights / (device.product_flops * device.product_share), read) + attention / (
        device.product_flops * device.attention_share)


def rest_seconds(pair, tokens, device):
    """The positions that the consumer computes itself, to the first logits."""
    read = device.bytes_per_number * (pair.layers * pair.layer_weights + pair.vocabulary * pair.hidden +
                                      pair.layers * 2 * pair.d_kv * tokens)
    return read / (device.memory_bytes * device.memory_share)


def codec_seconds(pair, mode, tokens, host, encode=False):
    """Of entropy codes, all columns of all layers, on the cores of `host`; other codes need none."""
    rate = host.encode_numbers if encode else host.decode_numbers
    return over_layers(pair, mode, lambda way: tokens * pair.fused_rank / (rate * host.cores) if way == "fused" else 0.0)


def first_token_seconds(pair, mode, tokens, device, host, link_bytes, cold):
    """The slowest of prefill, codec, wire and rebuilding, one layer of the others, and the rest."""
    coded = tokens - pair.native_positions
    stages = [rebuild_seconds(pair, mode, coded, device),
              over_layers(pair, mode, lambda way: code_bytes(pair, way)) * coded / link_bytes,
              codec_seconds(pair, mode, coded, host)]
    if cold:
        stages.append(prefill_seconds(pair, coded, device) + encode_seconds(pair, mode, coded, device))
        stages.append(codec_seconds(pair, mode, coded, host, encode=True))
    slowest = max(stages)
    return slowest + (sum(stages) - slowest) / pair.layers + rest_seconds(pair, tokens, device)
