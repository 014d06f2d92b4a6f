// A backend with a stream and tensors in its memory, so that one test runs on any backend, wherever its
// memory is.
#ifndef SCD_TESTS_KERNELS_BACKEND_RIG_H_
#define SCD_TESTS_KERNELS_BACKEND_RIG_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend_factory.h"

namespace scd::testing {

inline void ExpectOk(const absl::Status& status) {
  EXPECT_TRUE(status.ok()) << status.ToString();
}

// n values of about unit size, the same for the same seed.
std::vector<float> Random(std::int64_t n, unsigned seed);

// The same, each of them a number that bf16 holds.
std::vector<float> RandomBf16(std::int64_t n, unsigned seed);

// A tensor in a backend's memory. Rows of the first dimension may lie further apart than they need, with a
// mark between them that ops must leave alone.
struct RigTensor {
  std::unique_ptr<Buffer> buffer;
  TensorView view;
  std::int64_t row_gap = 0;
};

class BackendRig {
 public:
  explicit BackendRig(const BackendOptions& options);

  Backend& backend() { return *backend_; }
  Stream& stream() { return *stream_; }

  // Uninitialised but for the gaps.
  RigTensor Make(const Shape& shape, std::int64_t row_gap = 0, DType dtype = DType::kF32);
  // With values, converted to dtype (a float one).
  RigTensor Put(const Shape& shape, const std::vector<float>& values, std::int64_t row_gap = 0,
                DType dtype = DType::kF32);
  RigTensor PutIndices(const std::vector<std::int32_t>& values);
  // Values as f32, in order; fails the test if a gap was written to.
  std::vector<float> Get(const RigTensor& tensor);

  std::unique_ptr<PackedWeight> Pack(const Shape& shape, const std::vector<float>& weight,
                                     const std::vector<float>& bias, DType dtype = DType::kF32);

 private:
  void CopyRows(const TensorView& dst, const ConstTensorView& src);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

// The largest difference, relative to the largest reference value (or 1e-3 if that is larger).
void ExpectClose(const std::vector<float>& actual, const std::vector<float>& reference, double tolerance,
                 const std::string& what);

}  // namespace scd::testing

#endif  // SCD_TESTS_KERNELS_BACKEND_RIG_H_
