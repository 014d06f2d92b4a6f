#include "kernels/cpu/onednn_matmul.h"

#include <new>

#include "absl/memory/memory.h"
#include "kernels/cpu/single_openmp_thread.h"

namespace scd::cpu {

absl::StatusOr<std::unique_ptr<OneDnnMatMul>> OneDnnMatMul::Create(const void* values, DType dtype,
                                                                   std::int64_t columns, std::int64_t depth) {
  using Memory = dnnl::memory;
  // The shape that the weights' layout is chosen for.
  constexpr std::int64_t kPackingRows = 256;
  const SingleOpenMpThread single_thread;
  try {
    auto matmul = absl::WrapUnique(new OneDnnMatMul(dtype, columns, depth));
    const OneDnnProducts& products = matmul->products_;
    // The library's weights are [depth, columns].
    const Memory::desc plain({depth, columns}, products.dtype(), Memory::format_tag::ba);
    const Memory::desc any({depth, columns}, products.dtype(), Memory::format_tag::any);
    const auto chosen = products.DescribeFast(kPackingRows, columns, any);
    // Throws here, and not in the middle of serving, where fewer rows cannot be multiplied with that layout.
    for (const std::int64_t rows : {1, 16, 64}) products.DescribeFast(rows, columns, chosen.weights_desc());
    Memory source(plain, products.engine(), const_cast<void*>(values));
    matmul->weights_ = Memory(chosen.weights_desc(), products.engine());
    dnnl::stream stream(products.engine());
    dnnl::reorder(source, matmul->weights_).execute(stream, source, matmul->weights_);
    stream.wait();
    return matmul;
  } catch (const dnnl::error& error) {
    return FromOneDnnError(error);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a packed weight");
  }
}

}  // namespace scd::cpu
