// Products with packed weights: conversion of x, dequantising, the library's product, accumulation, in what
// scratch memory there is.
#ifndef SCD_KERNELS_CUDA_PRODUCT_H_
#define SCD_KERNELS_CUDA_PRODUCT_H_

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/gemm.h"

namespace scd::cuda {

struct Product {
  ConstTensorView x = {};  // [rows, in_features] f32 or bf16
  const CudaWeight* weight = nullptr;
  ColumnRange columns = {};  // of the result, both ends given
  TensorView out = {};       // [rows, columns] f32
  bool accumulate = false;
  bool with_bias = true;  // where the weight has one
};

// Operands were checked. Takes what is left of `scratch`.
absl::Status Multiply(GemmLibrary& library, CudaStream& stream, Scratch& scratch, const Product& product);

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_PRODUCT_H_
