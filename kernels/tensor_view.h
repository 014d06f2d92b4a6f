// A non-owning view of a dense tensor: data, dtype, shape, strides and the device that holds it.
//
// TensorView may be written through, ConstTensorView may not; the first converts to the second. A view never
// owns: whoever hands it out keeps the memory alive. Strides count elements; the last dimension of every view
// that an op takes is contiguous (stride 1), the first may be strided (a block of columns of a wider matrix).
#ifndef SCD_KERNELS_TENSOR_VIEW_H_
#define SCD_KERNELS_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "kernels/dtype.h"

namespace scd {

// Where memory lives. Host memory may be read by the CPU at once; device memory only through a Backend.
enum class Device : std::uint8_t { kHost, kCuda };

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  // At most kMaxRank dimensions.
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  void set_dim(int i, std::int64_t value) { dims_[static_cast<std::size_t>(i)] = value; }
  // 1 for rank 0.
  std::int64_t num_elements() const;
  // "[4, 64]".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

template <typename Void>
class BasicTensorView {
  template <typename T>
  using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
  using Byte = Element<std::byte>;

 public:
  // An empty view (no data, rank 0): "absent" where an op says that an operand is optional.
  BasicTensorView() = default;

  // Row-major and contiguous.
  BasicTensorView(Void* data, DType dtype, const Shape& shape, Device device = Device::kHost)
      : data_(data), dtype_(dtype), device_(device), shape_(shape) {
    std::int64_t stride = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      strides_[static_cast<std::size_t>(i)] = stride;
      stride *= shape[i];
    }
  }

  // TensorView -> ConstTensorView.
  template <typename Other, typename = std::enable_if_t<std::is_const_v<Void> && !std::is_const_v<Other>>>
  BasicTensorView(const BasicTensorView<Other>& other)  // NOLINT(google-explicit-constructor)
      : data_(other.data()),
        dtype_(other.dtype()),
        device_(other.device()),
        shape_(other.shape()),
        strides_(other.strides()) {}

  bool empty() const { return data_ == nullptr; }
  Void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int i) const { return shape_[i]; }
  std::int64_t stride(int i) const { return strides_[static_cast<std::size_t>(i)]; }
  const std::array<std::int64_t, Shape::kMaxRank>& strides() const { return strides_; }
  std::int64_t num_elements() const { return shape_.num_elements(); }
  bool contiguous() const {
    std::int64_t expected = 1;
    for (int i = rank() - 1; i >= 0; --i) {
      if (dim(i) != 1 && stride(i) != expected) return false;
      expected *= dim(i);
    }
    return true;
  }

  // The elements as T; T must be the C++ type of dtype() (float, std::uint16_t for f16 and bf16, std::int32_t
  // ...).
  template <typename T>
  Element<T>* as() const {
    return static_cast<Element<T>*>(data_);
  }

  // Start of index i of the first dimension.
  template <typename T>
  Element<T>* row(std::int64_t i) const {
    return as<T>() + i * strides_[0];
  }

  // Indices [begin, begin + count) of the first dimension.
  BasicTensorView rows(std::int64_t begin, std::int64_t count) const { return Slice(0, begin, count); }

  // Indices [begin, begin + count) of the last dimension.
  BasicTensorView columns(std::int64_t begin, std::int64_t count) const {
    return Slice(rank() - 1, begin, count);
  }

  // The same elements under another shape; for contiguous views, and for splitting the last dimension of a
  // 2-D view: [tokens, heads * head_dim] -> [tokens, heads, head_dim].
  BasicTensorView Reshaped(const Shape& shape) const {
    BasicTensorView out(data_, dtype_, shape, device_);
    if (rank() == 2 && shape.rank() == 3 && shape[0] == dim(0)) out.strides_[0] = stride(0);
    return out;
  }

 private:
  BasicTensorView Slice(int axis, std::int64_t begin, std::int64_t count) const {
    BasicTensorView out = *this;
    if (data_ != nullptr) {
      out.data_ =
          static_cast<Byte*>(data_) + static_cast<std::size_t>(begin * stride(axis)) * DTypeBytes(dtype_);
    }
    out.shape_.set_dim(axis, count);
    return out;
  }

  Void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Device device_ = Device::kHost;
  Shape shape_;
  std::array<std::int64_t, Shape::kMaxRank> strides_{};
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

}  // namespace scd

#endif  // SCD_KERNELS_TENSOR_VIEW_H_
