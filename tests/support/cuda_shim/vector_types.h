// CUDA's small structs.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_VECTOR_TYPES_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_VECTOR_TYPES_H_

struct uint3 {
  unsigned int x, y, z;
};

struct alignas(8) uint2 {
  unsigned int x, y;
};

struct alignas(16) uint4 {
  unsigned int x, y, z, w;
};

inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
  return {x, y, z, w};
}

struct alignas(16) float4 {
  float x, y, z, w;
};

inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

struct dim3 {
  constexpr dim3(unsigned int x_size = 1, unsigned int y_size = 1, unsigned int z_size = 1)  // NOLINT
      : x(x_size), y(y_size), z(z_size) {}
  unsigned int x, y, z;
};

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_VECTOR_TYPES_H_
