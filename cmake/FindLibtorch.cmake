# Finds libtorch: the folder `torch` of a wheel, or an unpacked libtorch.
#
# Torch's own package file is not used: of a libtorch that was built with CUDA it wants the whole
# toolkit, which programs that call libtorch do not need.
#
#   ACCRUE_LIBTORCH   that folder (with include/ and lib/); else CMAKE_PREFIX_PATH is searched
#
# Defines the target Libtorch::Libtorch and
#   Libtorch_VERSION, Libtorch_INCLUDE_DIRS, Libtorch_LIBRARY_DIR
#   Libtorch_CUDA     whether it was built with CUDA

find_path(Libtorch_API_DIR torch/version.h
          HINTS ${ACCRUE_LIBTORCH}
          PATH_SUFFIXES include/torch/csrc/api/include)
find_path(Libtorch_INCLUDE_DIR ATen/ATen.h HINTS ${ACCRUE_LIBTORCH} PATH_SUFFIXES include)
find_library(Libtorch_CPU_LIBRARY torch_cpu HINTS ${ACCRUE_LIBTORCH} PATH_SUFFIXES lib)
find_library(Libtorch_C10_LIBRARY c10 HINTS ${ACCRUE_LIBTORCH} PATH_SUFFIXES lib)

# Newer ones keep it in a header that needs no library.
foreach(header IN ITEMS ${Libtorch_INCLUDE_DIR}/torch/headeronly/version.h
                        ${Libtorch_API_DIR}/torch/version.h)
  if(NOT Libtorch_VERSION AND EXISTS ${header})
    file(STRINGS ${header} parts REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    list(TRANSFORM parts REPLACE "^#define TORCH_VERSION_[A-Z]+ ([0-9]+).*" "\\1")
    list(JOIN parts "." Libtorch_VERSION)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Libtorch
  REQUIRED_VARS Libtorch_CPU_LIBRARY Libtorch_C10_LIBRARY Libtorch_INCLUDE_DIR Libtorch_API_DIR
  VERSION_VAR Libtorch_VERSION
  REASON_FAILURE_MESSAGE "state the folder with its include and lib: -DACCRUE_LIBTORCH=...")
mark_as_advanced(Libtorch_API_DIR Libtorch_INCLUDE_DIR Libtorch_CPU_LIBRARY Libtorch_C10_LIBRARY)
if(NOT Libtorch_FOUND)
  return()
endif()

set(Libtorch_INCLUDE_DIRS ${Libtorch_INCLUDE_DIR} ${Libtorch_API_DIR})
get_filename_component(Libtorch_LIBRARY_DIR ${Libtorch_CPU_LIBRARY} DIRECTORY)
set(Libtorch_CUDA OFF)
if(EXISTS ${Libtorch_LIBRARY_DIR}/libtorch_cuda.so)
  set(Libtorch_CUDA ON)
endif()

# Its part for CUDA, which is linked only by what is loaded where a GPU is used.
if(Libtorch_CUDA AND NOT TARGET Libtorch::Cuda)
  add_library(Libtorch::Cuda INTERFACE IMPORTED)
  set_target_properties(Libtorch::Cuda PROPERTIES INTERFACE_LINK_LIBRARIES
                        "${Libtorch_LIBRARY_DIR}/libtorch_cuda.so;${Libtorch_LIBRARY_DIR}/libc10_cuda.so")
endif()

if(NOT TARGET Libtorch::Libtorch)
  add_library(Libtorch::Libtorch INTERFACE IMPORTED)
  # libtorch finds what it needs itself (CUDA's runtime among its wheel's dependencies) when it is
  # loaded; the linker need not.
  set_target_properties(
    Libtorch::Libtorch
    PROPERTIES INTERFACE_LINK_LIBRARIES
               "${Libtorch_CPU_LIBRARY};${Libtorch_C10_LIBRARY};-Wl,--allow-shlib-undefined"
               INTERFACE_INCLUDE_DIRECTORIES "${Libtorch_INCLUDE_DIRS}"
               INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
               INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
