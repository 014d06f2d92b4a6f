# The cuda backend as a plug-in, bin/libscd_cuda.so, where the CUDA toolkit is: the only target that needs it.
#   SCD_CUDA                AUTO (where nvcc is found), ON (an error where it is not) or OFF
#   SCD_CUDA_ARCHITECTURES  compute capabilities that machine code is made for; the last also as PTX for later ones
set(SCD_CUDA AUTO CACHE STRING "The cuda backend: AUTO, ON or OFF")
set(SCD_CUDA_ARCHITECTURES 80 86 89 90 100 120 CACHE STRING "Architectures that kernels are compiled for")
if(NOT SCD_CUDA STREQUAL OFF)
  find_program(SCD_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDAToolkit_ROOT PATHS /usr/local/cuda PATH_SUFFIXES bin)
endif()
if(SCD_CUDA STREQUAL ON AND NOT SCD_NVCC)
  message(FATAL_ERROR "SCD_CUDA is ON, but there is no nvcc")
endif()
if(SCD_CUDA STREQUAL OFF OR NOT SCD_NVCC)
  message(STATUS "The cuda backend is left out")
  return()
endif()

find_package(CUDAToolkit REQUIRED)
message(STATUS "The cuda backend: CUDA ${CUDAToolkit_VERSION} for ${SCD_CUDA_ARCHITECTURES}")
set(scd_nvcc_flags -std=c++20 -O3 --threads=2 -Werror=all-warnings -I${PROJECT_SOURCE_DIR}
  -Xcompiler=-fPIC,-fvisibility=hidden)
foreach(architecture ${SCD_CUDA_ARCHITECTURES})
  list(APPEND scd_nvcc_flags -gencode=arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET SCD_CUDA_ARCHITECTURES -1 architecture)
list(APPEND scd_nvcc_flags -gencode=arch=compute_${architecture},code=compute_${architecture})

# nvcc is called as it is: CMake 3.25 knows C++20 of no CUDA as new as these architectures need.
set(scd_cuda_objects)
foreach(source ${SCD_CUDA_KERNEL_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda_${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${SCD_CCACHE} ${SCD_NVCC} ${scd_nvcc_flags} -MD -MT ${object} -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "nvcc ${name}.cu" VERBATIM)
  list(APPEND scd_cuda_objects ${object})
endforeach()

add_library(scd_cuda MODULE ${SCD_CUDA_HOST_SOURCES} ${SCD_CUDA_SHARED_SOURCES} ${scd_cuda_folder}/gemm_cublaslt.cc
  ${scd_cuda_objects})
target_include_directories(scd_cuda PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(scd_cuda PRIVATE -Wall -Wextra -Werror)
target_link_libraries(scd_cuda PRIVATE ${SCD_CUDA_DEPS} CUDA::cudart_static CUDA::cublasLt)
set_target_properties(scd_cuda PROPERTIES
  CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
# A component of its own: packages are made where no CUDA need be.
install(TARGETS scd_cuda LIBRARY DESTINATION lib/scd COMPONENT cuda)
