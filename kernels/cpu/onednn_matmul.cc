#include "kernels/cpu/onednn_matmul.h"

#include <new>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/single_openmp_thread.h"

namespace scd::cpu {
namespace {

using Memory = dnnl::memory;

// Shapes repeat (chunk sizes, decode batches); a caller whose shapes do not must not grow the cache for ever.
constexpr std::size_t kMaxPrimitives = 64;
// The shape that the weights' layout is chosen for.
constexpr std::int64_t kPackingRows = 256;

absl::Status FromError(const dnnl::error& error) {
  const std::string text = absl::StrCat("oneDNN matmul: ", error.message);
  if (error.status == dnnl_unimplemented) return absl::UnimplementedError(text);
  if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

}  // namespace

bool OneDnnHasBf16() {
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (has & wanted) == wanted;
}

absl::StatusOr<std::unique_ptr<OneDnnMatMul>> OneDnnMatMul::Create(const void* values, DType dtype,
                                                                   std::int64_t columns, std::int64_t depth) {
  const SingleOpenMpThread single_thread;
  try {
    auto product = absl::WrapUnique(new OneDnnMatMul(dtype, columns, depth));
    // The library's weights are [depth, columns].
    const Memory::desc plain({depth, columns}, product->dtype_, Memory::format_tag::ba);
    const Memory::desc any({depth, columns}, product->dtype_, Memory::format_tag::any);
    const auto chosen = product->Describe(kPackingRows, columns, false, any);
    // Throws here, and not in the middle of serving, where few rows cannot be multiplied with that layout.
    product->Describe(1, columns, true, chosen.weights_desc());
    Memory source(plain, product->engine_, const_cast<void*>(values));
    product->weights_ = Memory(chosen.weights_desc(), product->engine_);
    dnnl::stream stream(product->engine_);
    dnnl::reorder(source, product->weights_).execute(stream, source, product->weights_);
    stream.wait();
    return product;
  } catch (const dnnl::error& error) {
    return FromError(error);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a packed weight");
  }
}

dnnl::matmul::primitive_desc OneDnnMatMul::Describe(std::int64_t rows, std::int64_t out_stride,
                                                    bool accumulate, const Memory::desc& weights) const {
  const Memory::desc src({rows, depth_}, dtype_, Memory::format_tag::ab);
  const Memory::desc dst({rows, columns_}, Memory::data_type::f32, Memory::dims{out_stride, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops add_to_out;
    add_to_out.append_sum(1.0f);
    attributes.set_post_ops(add_to_out);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine_, src, weights, dst, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(src, weights, dst), attributes, engine_);
#endif
}

dnnl::matmul OneDnnMatMul::FindOrMake(const PrimitiveKey& key, Memory::desc* scratchpad) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = made_.find(key);
  if (found == made_.end()) {
    if (made_.size() >= kMaxPrimitives) made_.clear();
    const auto& [rows, out_stride, accumulate] = key;
    const auto description = Describe(rows, out_stride, accumulate, weights_.get_desc());
    found = made_.emplace(key, Made{dnnl::matmul(description), description.scratchpad_desc()}).first;
  }
  *scratchpad = found->second.scratchpad;
  return found->second.primitive;
}

absl::Status OneDnnMatMul::Multiply(const void* x, std::int64_t rows, float* out, std::int64_t out_stride,
                                    bool accumulate) const {
  const SingleOpenMpThread single_thread;
  try {
    Memory::desc scratchpad;
    const dnnl::matmul product = FindOrMake({rows, out_stride, accumulate}, &scratchpad);
    const Memory::desc src({rows, depth_}, dtype_, Memory::format_tag::ab);
    const Memory::desc dst({rows, columns_}, Memory::data_type::f32, Memory::dims{out_stride, 1});
    dnnl::stream stream(engine_);
    product.execute(stream, {{DNNL_ARG_SRC, Memory(src, engine_, const_cast<void*>(x))},
                             {DNNL_ARG_WEIGHTS, weights_},
                             {DNNL_ARG_DST, Memory(dst, engine_, out)},
                             {DNNL_ARG_SCRATCHPAD, Memory(scratchpad, engine_)}});
    stream.wait();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return FromError(error);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a product");
  }
}

}  // namespace scd::cpu
