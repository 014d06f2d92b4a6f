# The sources of the cuda backend: what nvcc compiles, what the host's compiler compiles, and what is linked in of the rest
# of kernels/. The checks without a GPU compile the same files for the CPU (tests/support/cuda_shim).
set(scd_cuda_folder ${PROJECT_SOURCE_DIR}/kernels/cuda)
set(SCD_CUDA_KERNEL_SOURCES
  ${scd_cuda_folder}/attention.cu
  ${scd_cuda_folder}/attention_mma.cu
  ${scd_cuda_folder}/codes.cu
  ${scd_cuda_folder}/kv_store.cu
  ${scd_cuda_folder}/pointwise.cu
  ${scd_cuda_folder}/quantized.cu)
set(SCD_CUDA_HOST_SOURCES
  ${scd_cuda_folder}/arena.cc
  ${scd_cuda_folder}/cuda_attention.cc
  ${scd_cuda_folder}/cuda_backend.cc
  ${scd_cuda_folder}/cuda_codes.cc
  ${scd_cuda_folder}/cuda_copy.cc
  ${scd_cuda_folder}/cuda_kv.cc
  ${scd_cuda_folder}/cuda_memory.cc
  ${scd_cuda_folder}/cuda_status.cc
  ${scd_cuda_folder}/cuda_stream.cc
  ${scd_cuda_folder}/cuda_weight.cc
  ${scd_cuda_folder}/plugin.cc
  ${scd_cuda_folder}/product.cc)
set(SCD_CUDA_SHARED_SOURCES
  ${PROJECT_SOURCE_DIR}/kernels/checks.cc
  ${PROJECT_SOURCE_DIR}/kernels/code_checks.cc
  ${PROJECT_SOURCE_DIR}/kernels/dtype.cc
  ${PROJECT_SOURCE_DIR}/kernels/kv_checks.cc
  ${PROJECT_SOURCE_DIR}/kernels/quantized_matrix.cc
  ${PROJECT_SOURCE_DIR}/kernels/tensor_view.cc)
set(SCD_CUDA_DEPS absl::memory absl::span absl::status absl::statusor absl::strings)

# SCD_CUDA_INTERFACE: a number that stands for the headers that a program and its plug-in must have in common.
set(scd_cuda_interface "")
foreach(header backend backend_factory cuda/plugin dtype grouped_integers paged_kv quantized_matrix rope_table tensor_view)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/${header}.h)
  file(SHA256 ${PROJECT_SOURCE_DIR}/kernels/${header}.h scd_header_digest)
  string(APPEND scd_cuda_interface ${scd_header_digest})
endforeach()
string(SHA256 scd_cuda_interface ${scd_cuda_interface})
string(SUBSTRING ${scd_cuda_interface} 0 8 scd_cuda_interface)
set_source_files_properties(${scd_cuda_folder}/plugin.cc ${scd_cuda_folder}/load_plugin.cc PROPERTIES
  COMPILE_DEFINITIONS SCD_CUDA_INTERFACE=0x${scd_cuda_interface}u)
