#include "tests/kernels/backend_rig.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace scd::testing {
namespace {

constexpr unsigned char kGapByte = 0xa5;

std::int64_t Width(const Shape& shape) {
  return shape.rank() < 2 || shape[0] == 0 ? shape.num_elements() : shape.num_elements() / shape[0];
}

// The view of `shape` whose rows are width + gap elements apart.
TensorView WithGap(void* data, DType dtype, const Shape& shape, std::int64_t gap, Device device) {
  if (gap == 0) return TensorView(data, dtype, shape, device);
  const TensorView rows =
      TensorView(data, dtype, {shape[0], Width(shape) + gap}, device).columns(0, Width(shape));
  return shape.rank() == 2 ? rows : rows.Reshaped(shape);
}

}  // namespace

std::vector<float> Random(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1.5f, 1.5f);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = distribution(generator);
  return values;
}

std::vector<float> RandomBf16(std::int64_t n, unsigned seed) {
  std::vector<float> values = Random(n, seed);
  for (float& value : values) value = Bf16ToFloat(FloatToBf16(value));
  return values;
}

BackendRig::BackendRig(const BackendOptions& options) {
  auto backend = CreateBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status().ToString();
  backend_ = *std::move(backend);
  auto stream = backend_->CreateStream();
  EXPECT_TRUE(stream.ok()) << stream.status().ToString();
  stream_ = *std::move(stream);
}

void BackendRig::CopyRows(const TensorView& dst, const ConstTensorView& src) {
  ExpectOk(backend_->Copy(*stream_, dst, src));
  ExpectOk(backend_->Synchronize(*stream_));
}

RigTensor BackendRig::Make(const Shape& shape, std::int64_t row_gap, DType dtype) {
  const std::int64_t elements = shape.num_elements() + (shape.rank() < 2 ? 0 : shape[0]) * row_gap;
  const std::size_t bytes = static_cast<std::size_t>(elements) * DTypeBytes(dtype);
  auto buffer = backend_->Allocate(MemoryKind::kDevice, bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
  if (bytes > 0) {
    std::vector<unsigned char> marks(bytes, kGapByte);
    const auto count = static_cast<std::int64_t>(bytes);
    CopyRows((*buffer)->View(DType::kU8, {count}), ConstTensorView(marks.data(), DType::kU8, {count}));
  }
  RigTensor tensor{*std::move(buffer), {}, row_gap};
  tensor.view = WithGap(tensor.buffer->data(), dtype, shape, row_gap, tensor.buffer->device());
  return tensor;
}

RigTensor BackendRig::Put(const Shape& shape, const std::vector<float>& values, std::int64_t row_gap,
                          DType dtype) {
  RigTensor tensor = Make(shape, row_gap, dtype);
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.num_elements());
  CopyRows(tensor.view, ConstTensorView(values.data(), DType::kF32, shape));
  return tensor;
}

RigTensor BackendRig::PutIndices(const std::vector<std::int32_t>& values) {
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  RigTensor tensor = Make(shape, 0, DType::kI32);
  CopyRows(tensor.view, ConstTensorView(values.data(), DType::kI32, shape));
  return tensor;
}

std::vector<float> BackendRig::Get(const RigTensor& tensor) {
  ExpectOk(backend_->Synchronize(*stream_));
  const Shape& shape = tensor.view.shape();
  std::vector<float> values(static_cast<std::size_t>(shape.num_elements()));
  if (values.empty()) return values;
  CopyRows(TensorView(values.data(), DType::kF32, shape), tensor.view);
  if (tensor.row_gap > 0) {
    std::vector<unsigned char> bytes(tensor.buffer->size_bytes());
    const auto count = static_cast<std::int64_t>(bytes.size());
    CopyRows(TensorView(bytes.data(), DType::kU8, {count}), tensor.buffer->View(DType::kU8, {count}));
    const std::size_t width = static_cast<std::size_t>(Width(shape)) * DTypeBytes(tensor.view.dtype());
    const std::size_t gap = static_cast<std::size_t>(tensor.row_gap) * DTypeBytes(tensor.view.dtype());
    for (std::size_t begin = width; begin < bytes.size(); begin += width + gap) {
      const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
      const bool untouched = std::all_of(first, first + static_cast<std::ptrdiff_t>(gap),
                                         [](unsigned char byte) { return byte == kGapByte; });
      EXPECT_TRUE(untouched) << "something was written between the rows";
    }
  }
  return values;
}

std::unique_ptr<PackedWeight> BackendRig::Pack(const Shape& shape, const std::vector<float>& weight,
                                               const std::vector<float>& bias, DType dtype) {
  // Weights are packed from host memory, whatever their dtype.
  std::vector<std::uint16_t> halves;
  ConstTensorView view(weight.data(), DType::kF32, shape);
  if (dtype != DType::kF32) {
    for (const float value : weight) {
      halves.push_back(dtype == DType::kF16 ? FloatToF16(value) : FloatToBf16(value));
    }
    view = ConstTensorView(halves.data(), dtype, shape);
  }
  ConstTensorView bias_view;
  if (!bias.empty()) bias_view = ConstTensorView(bias.data(), DType::kF32, {shape[0]});
  auto packed = backend_->PackWeight(view, bias_view);
  EXPECT_TRUE(packed.ok()) << packed.status().ToString();
  return *std::move(packed);
}

void ExpectClose(const std::vector<float>& actual, const std::vector<float>& reference, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), reference.size()) << what;
  double scale = 1e-3;
  for (const float value : reference) scale = std::max(scale, std::abs(double{value}));
  double worst = 0.0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(double{actual[i]} - reference[i]) / scale;
    if (!(difference <= worst)) {
      worst = difference;
      where = i;
    }
  }
  EXPECT_LE(worst, tolerance) << what << ": element " << where << " is "
                              << (actual.empty() ? 0.0f : actual[where]) << ", the reference has "
                              << (reference.empty() ? 0.0f : reference[where]);
}

}  // namespace scd::testing
