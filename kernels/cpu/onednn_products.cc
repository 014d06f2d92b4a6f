#include "kernels/cpu/onednn_products.h"

#include <algorithm>
#include <new>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/single_openmp_thread.h"

namespace scd::cpu {
namespace {

using Memory = dnnl::memory;

// Shapes repeat (chunk sizes, decode batches); a caller whose shapes do not must not grow the cache for ever.
constexpr std::size_t kMaxPrimitives = 64;
// Fewer rows are not worth another thread for their conversion.
constexpr std::int64_t kConvertedRows = 256;

}  // namespace

bool OneDnnHasBf16() {
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (has & wanted) == wanted;
}

absl::Status FromOneDnnError(const dnnl::error& error) {
  const std::string text = absl::StrCat("oneDNN matmul: ", error.message);
  if (error.status == dnnl_unimplemented) return absl::UnimplementedError(text);
  if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

hwy::AlignedFreeUniquePtr<std::byte[]> AllocateElements(DType dtype, std::int64_t count) {
  return hwy::AllocateAligned<std::byte>(static_cast<std::size_t>(count) * DTypeBytes(dtype));
}

absl::StatusOr<ConvertedRows> ConvertToOperand(ThreadPool& pool, const ConstTensorView& x, DType dtype) {
  ConvertedRows out{AllocateElements(dtype, x.num_elements()), {}};
  if (out.memory == nullptr) return absl::ResourceExhaustedError("no memory for the operands of a product");
  out.view = TensorView(out.memory.get(), dtype, x.shape());
  const Partition parts(x.dim(0), pool.num_threads(), kConvertedRows);
  pool.ParallelFor(parts.num_pieces(),
                   [&](std::int64_t i) { ConvertRows(x, out.view, parts[i].begin, parts[i].end); });
  return out;
}

std::vector<Range> OneDnnRowBlocks(std::int64_t rows) {
  constexpr std::int64_t kRowBlock = 256;
  constexpr std::int64_t kRowGranule = 16;
  std::vector<Range> blocks;
  std::int64_t begin = 0;
  while (begin < rows) {
    const std::int64_t left = rows - begin;
    const std::int64_t size =
        left < kRowGranule ? left : std::min(kRowBlock, left / kRowGranule * kRowGranule);
    blocks.push_back({begin, begin + size});
    begin += size;
  }
  return blocks;
}

OneDnnProducts::OneDnnProducts(DType dtype, std::int64_t depth)
    : dtype_(dtype == DType::kBF16 ? Memory::data_type::bf16 : Memory::data_type::f32),
      depth_(depth),
      engine_(dnnl::engine::kind::cpu, 0) {}

dnnl::matmul::primitive_desc OneDnnProducts::Describe(std::int64_t rows, std::int64_t columns,
                                                      const Memory::desc& weights) const {
  const Memory::desc src({rows, depth_}, dtype_, Memory::format_tag::ab);
  const Memory::desc dst({rows, columns}, Memory::data_type::f32, Memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine_, src, weights, dst, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(src, weights, dst), attributes, engine_);
#endif
}

dnnl::matmul::primitive_desc OneDnnProducts::DescribeFast(std::int64_t rows, std::int64_t columns,
                                                          const Memory::desc& weights) const {
  auto description = Describe(rows, columns, weights);
  if (absl::StartsWith(description.impl_info_str(), "ref")) {
    throw dnnl::error(dnnl_unimplemented, "only the reference is there for this shape");
  }
  return description;
}

absl::Status OneDnnProducts::CheckPlain() const {
  constexpr std::int64_t kSize = 64;
  try {
    DescribeFast(kSize, kSize, Memory::desc({depth_, kSize}, dtype_, Memory::format_tag::ab));
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return FromOneDnnError(error);
  }
}

absl::StatusOr<Memory> OneDnnProducts::View(void* values, std::int64_t columns, std::int64_t stride) const {
  try {
    return Memory(Memory::desc({depth_, columns}, dtype_, Memory::dims{stride, 1}), engine_, values);
  } catch (const dnnl::error& error) {
    return FromOneDnnError(error);
  }
}

OneDnnProducts::Made OneDnnProducts::FindOrMake(const Key& key, const Memory::desc& weights) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = made_.find(key);
  if (found == made_.end()) {
    if (made_.size() >= kMaxPrimitives) made_.clear();
    const auto& [rows, columns] = key;
    const auto description = Describe(rows, columns, weights);
    found = made_.emplace(key, Made{dnnl::matmul(description), description.scratchpad_desc()}).first;
  }
  return found->second;
}

absl::Status OneDnnProducts::Multiply(const void* x, std::int64_t rows, const Memory& weights,
                                      std::int64_t columns, float* out, std::int64_t out_stride,
                                      bool accumulate) const {
  if (!accumulate && (out_stride == columns || rows == 1)) {
    return MultiplyContiguous(x, rows, weights, columns, out);
  }
  // The library's fast products for blocked weights write contiguous results only.
  const auto result = hwy::AllocateAligned<float>(static_cast<std::size_t>(rows * columns));
  if (result == nullptr) return absl::ResourceExhaustedError("no memory for a product");
  absl::Status status = MultiplyContiguous(x, rows, weights, columns, result.get());
  if (!status.ok()) return status;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = result.get() + r * columns;
    float* to = out + r * out_stride;
    if (accumulate) {
      for (std::int64_t c = 0; c < columns; ++c) to[c] += from[c];
    } else {
      std::copy_n(from, columns, to);
    }
  }
  return absl::OkStatus();
}

absl::Status OneDnnProducts::MultiplyContiguous(const void* x, std::int64_t rows, const Memory& weights,
                                                std::int64_t columns, float* out) const {
  const SingleOpenMpThread single_thread;
  try {
    const Made product = FindOrMake({rows, columns}, weights.get_desc());
    const Memory::desc src({rows, depth_}, dtype_, Memory::format_tag::ab);
    const Memory::desc dst({rows, columns}, Memory::data_type::f32, Memory::format_tag::ab);
    dnnl::stream stream(engine_);
    product.primitive.execute(stream, {{DNNL_ARG_SRC, Memory(src, engine_, const_cast<void*>(x))},
                                       {DNNL_ARG_WEIGHTS, weights},
                                       {DNNL_ARG_DST, Memory(dst, engine_, out)},
                                       {DNNL_ARG_SCRATCHPAD, Memory(product.scratchpad, engine_)}});
    stream.wait();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return FromOneDnnError(error);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a product");
  }
}

}  // namespace scd::cpu
