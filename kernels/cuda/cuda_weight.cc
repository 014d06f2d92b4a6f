#include "kernels/cuda/cuda_weight.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/status_macros.h"

namespace scd::cuda {
namespace {

constexpr std::size_t kRowAlignment = 16;
// Numbers are converted on the host in pieces of about this size.
constexpr std::int64_t kPieceBytes = 16 << 20;

// [count] elements of `bytes` bytes each.
absl::StatusOr<std::unique_ptr<CudaBuffer>> Upload(DeviceMemory& memory, const void* data,
                                                   std::size_t bytes) {
  SCD_ASSIGN_OR_RETURN(auto buffer, memory.Allocate(MemoryKind::kDevice, bytes));
  SCD_RETURN_IF_ERROR(
      ToStatus("PackWeight", cudaMemcpy2D(buffer->data(), bytes, data, bytes, bytes, 1, cudaMemcpyDefault)));
  return buffer;
}

// A copy from memory that is not pinned may return before it is done.
absl::Status WaitForUploads(DeviceMemory& memory) {
  return memory.Synchronize();
}

float NumberAt(const ConstTensorView& weight, std::int64_t row, std::int64_t column) {
  if (weight.dtype() == DType::kF32) return weight.row<float>(row)[column];
  const std::uint16_t bits = weight.row<std::uint16_t>(row)[column];
  return weight.dtype() == DType::kF16 ? F16ToFloat(bits) : Bf16ToFloat(bits);
}

// Rows [begin, begin + count) one behind the other.
void ConvertRows(const ConstTensorView& weight, std::int64_t begin, std::int64_t count, DType dtype,
                 std::byte* to) {
  for (std::int64_t row = begin; row < begin + count; ++row) {
    for (std::int64_t i = 0; i < weight.dim(1); ++i) {
      const float number = NumberAt(weight, row, i);
      if (dtype == DType::kBF16) {
        const std::uint16_t bits = FloatToBf16(number);
        std::memcpy(to, &bits, sizeof(bits));
      } else {
        std::memcpy(to, &number, sizeof(number));
      }
      to += DTypeBytes(dtype);
    }
  }
}

bool FitF16(const std::vector<float>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](float number) { return F16ToFloat(FloatToF16(number)) == number; });
}

absl::StatusOr<std::unique_ptr<CudaBuffer>> UploadGroups(DeviceMemory& memory,
                                                         const std::vector<float>& numbers, DType dtype) {
  if (dtype == DType::kF32) return Upload(memory, numbers.data(), numbers.size() * sizeof(float));
  std::vector<std::uint16_t> halves(numbers.size());
  std::transform(numbers.begin(), numbers.end(), halves.begin(), FloatToF16);
  return Upload(memory, halves.data(), halves.size() * sizeof(std::uint16_t));
}

// Two numbers of 4 bits in a byte.
std::vector<std::uint8_t> PackNibbles(const std::vector<std::int8_t>& values) {
  std::vector<std::uint8_t> bytes(values.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(values[2 * i] | values[2 * i + 1] << 4);
  }
  return bytes;
}

}  // namespace

std::int64_t PaddedCount(std::int64_t count, DType dtype) {
  const auto multiple = static_cast<std::int64_t>(kRowAlignment / DTypeBytes(dtype));
  return (count + multiple - 1) / multiple * multiple;
}

absl::StatusOr<std::unique_ptr<CudaWeight>> CudaWeight::PackDense(DeviceMemory& memory,
                                                                  const ConstTensorView& weight,
                                                                  const ConstTensorView& bias,
                                                                  absl::Span<const std::int64_t> cuts,
                                                                  DType product_dtype) {
  auto packed = absl::WrapUnique(new CudaWeight(weight.dim(0), weight.dim(1), cuts, product_dtype));
  SCD_RETURN_IF_ERROR(packed->PutBias(memory, bias));
  packed->stride_ = PaddedCount(weight.dim(1), product_dtype);
  const std::size_t number_bytes = DTypeBytes(product_dtype);
  const std::size_t pitch = static_cast<std::size_t>(packed->stride_) * number_bytes;
  const std::size_t width = static_cast<std::size_t>(weight.dim(1)) * number_bytes;
  const std::size_t bytes = pitch * static_cast<std::size_t>(weight.dim(0));
  SCD_ASSIGN_OR_RETURN(packed->values_, memory.Allocate(MemoryKind::kDevice, bytes));
  if (pitch != width)
    SCD_RETURN_IF_ERROR(ToStatus("PackWeight", cudaMemset(packed->values_->data(), 0, bytes)));
  const auto put = [&](std::int64_t row, std::int64_t count, const void* from, std::size_t from_pitch) {
    return ToStatus(
        "PackWeight",
        cudaMemcpy2D(static_cast<std::byte*>(packed->values_->data()) + static_cast<std::size_t>(row) * pitch,
                     pitch, from, from_pitch, width, static_cast<std::size_t>(count), cudaMemcpyDefault));
  };
  if (weight.dtype() == product_dtype) {
    SCD_RETURN_IF_ERROR(
        put(0, weight.dim(0), weight.data(), static_cast<std::size_t>(weight.stride(0)) * number_bytes));
  } else {
    const auto row_bytes = static_cast<std::int64_t>(width);
    const std::int64_t rows_of_a_piece =
        std::min(weight.dim(0), std::max<std::int64_t>(1, kPieceBytes / row_bytes));
    std::vector<std::byte> piece(static_cast<std::size_t>(rows_of_a_piece) * width);
    for (std::int64_t row = 0; row < weight.dim(0); row += rows_of_a_piece) {
      const std::int64_t count = std::min(rows_of_a_piece, weight.dim(0) - row);
      ConvertRows(weight, row, count, product_dtype, piece.data());
      SCD_RETURN_IF_ERROR(put(row, count, piece.data(), width));
    }
  }
  SCD_RETURN_IF_ERROR(WaitForUploads(memory));
  return packed;
}

absl::StatusOr<std::unique_ptr<CudaWeight>> CudaWeight::PackQuantized(DeviceMemory& memory,
                                                                      const QuantizedMatrix& weight,
                                                                      const ConstTensorView& bias,
                                                                      absl::Span<const std::int64_t> cuts,
                                                                      DType product_dtype) {
  auto packed =
      absl::WrapUnique(new CudaWeight(weight.out_features, weight.in_features, cuts, product_dtype));
  SCD_RETURN_IF_ERROR(packed->PutBias(memory, bias));
  packed->bits_ = weight.bits;
  if (weight.bits == 4) {
    const std::vector<std::uint8_t> bytes = PackNibbles(weight.values);
    SCD_ASSIGN_OR_RETURN(packed->values_, Upload(memory, bytes.data(), bytes.size()));
  } else {
    SCD_ASSIGN_OR_RETURN(packed->values_, Upload(memory, weight.values.data(), weight.values.size()));
  }
  packed->group_dtype_ = FitF16(weight.scales) && FitF16(weight.minimums) ? DType::kF16 : DType::kF32;
  SCD_ASSIGN_OR_RETURN(packed->scales_, UploadGroups(memory, weight.scales, packed->group_dtype_));
  if (!weight.minimums.empty()) {
    SCD_ASSIGN_OR_RETURN(packed->minimums_, UploadGroups(memory, weight.minimums, packed->group_dtype_));
  }
  SCD_RETURN_IF_ERROR(WaitForUploads(memory));
  return packed;
}

absl::Status CudaWeight::PutBias(DeviceMemory& memory, const ConstTensorView& bias) {
  if (bias.empty()) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(bias_,
                       Upload(memory, bias.data(), static_cast<std::size_t>(bias.dim(0)) * sizeof(float)));
  return absl::OkStatus();
}

std::int64_t CudaWeight::size_bytes() const {
  std::size_t bytes = values_->size_bytes();
  for (const CudaBuffer* buffer : {bias_.get(), scales_.get(), minimums_.get()}) {
    if (buffer != nullptr) bytes += buffer->size_bytes();
  }
  return static_cast<std::int64_t>(bytes);
}

const void* CudaWeight::dense_row(std::int64_t row) const {
  return static_cast<const std::byte*>(values_->data()) +
         static_cast<std::size_t>(row * stride_) * DTypeBytes(product_dtype_);
}

QuantizedRows CudaWeight::quantized_rows() const {
  return {.values = values_->data(),
          .bits = bits_,
          .scales = scales_->data(),
          .minimums = minimums_ == nullptr ? nullptr : minimums_->data(),
          .group_dtype = group_dtype_,
          .in_features = in_features_};
}

}  // namespace scd::cuda
