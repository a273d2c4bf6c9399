# Everything accrue is built on. docs/notes/dependencies.md says why each was chosen.

# The package is for the torch of the Python that builds it, with the oneDNN that is installed beside it.
if(ACCRUE_BUILD_PYTHON AND NOT ACCRUE_LIBTORCH)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u, os, sys; print(os.path.dirname(u.find_spec('torch').origin), sys.prefix, sep=';', end='')"
    OUTPUT_VARIABLE python_places COMMAND_ERROR_IS_FATAL ANY)
  list(GET python_places 0 ACCRUE_LIBTORCH)
  list(GET python_places 1 python_prefix)
  list(APPEND CMAKE_PREFIX_PATH ${python_prefix})
endif()
find_package(Libtorch 2.11 REQUIRED)
# Torch's warnings are not ours, as an imported target's includes are the system's.
add_library(accrue_torch INTERFACE)
target_link_libraries(accrue_torch INTERFACE Libtorch::Libtorch)
# libtorch's wheel is built with NDEBUG, and at::RecordFunction has one member more without it.
target_compile_definitions(accrue_torch INTERFACE $<$<NOT:$<CONFIG:Release>>:NDEBUG>)

# An installed program finds these libraries where the build found them.
set(ACCRUE_RUNTIME_DIRS ${Libtorch_LIBRARY_DIR})

# OpenMP by the compiler's flag. FindOpenMP's target links it by the path of the compiler's libgomp. libtorch's wheel has a
# libgomp of the same name beside its libraries, which a program loads in its place, so CMake would warn for each program
# that no safe runtime search path can be made. The target is accrue's own: OpenMP::OpenMP_CXX may be a user's.
add_library(accrue_openmp INTERFACE)
set_target_properties(accrue_openmp PROPERTIES EXPORT_NAME openmp)
if(ACCRUE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang's OpenMP beside libtorch's would be two of them in a process. Parallel loops run in threads of our own instead,
  # with the chunks that OpenMP's threads would get (docs/notes/sanitizers.md).
  include_directories(BEFORE ${PROJECT_SOURCE_DIR}/tests/sanitize/include)
else()
  find_package(OpenMP REQUIRED)
  separate_arguments(accrue_openmp_flags NATIVE_COMMAND "${OpenMP_CXX_FLAGS}")
  target_compile_options(accrue_openmp INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${accrue_openmp_flags}>")
  target_link_libraries(accrue_openmp INTERFACE ${accrue_openmp_flags})
endif()
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)

# oneDNN is optional: without it (or with a CUDA libtorch) the GEMMs go through ATen.
find_package(dnnl CONFIG QUIET)
if(dnnl_FOUND)
  set(ACCRUE_HAVE_ONEDNN ON)
  list(APPEND ACCRUE_RUNTIME_DIRS $<TARGET_FILE_DIR:DNNL::dnnl>)
else()
  set(ACCRUE_HAVE_ONEDNN OFF)
  message(STATUS "accrue: oneDNN not found; matrix multiplications go through ATen")
endif()

# Process groups are libtorch's own (c10d with Gloo); their header needs Gloo's, which it comes without.
find_path(ACCRUE_GLOO_INCLUDE_DIR gloo/context.h)
find_file(ACCRUE_C10D_GLOO torch/csrc/distributed/c10d/ProcessGroupGloo.hpp
          PATHS ${Libtorch_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(NOT ACCRUE_C10D_GLOO)
  set(ACCRUE_HAVE_GLOO OFF)
  message(STATUS "accrue: this libtorch has no c10d; training runs in one process")
elseif(NOT ACCRUE_GLOO_INCLUDE_DIR)
  set(ACCRUE_HAVE_GLOO OFF)
  message(STATUS "accrue: Gloo's headers (libgloo-dev) not found; training runs in one process")
else()
  set(ACCRUE_HAVE_GLOO ON)
endif()

# The ranks' store in an etcd cluster (ACCRUE_STORE) is reached over HTTP, by a libcurl that is loaded when it is needed.
find_path(ACCRUE_CURL_INCLUDE_DIR curl/curl.h)
if(ACCRUE_CURL_INCLUDE_DIR)
  set(ACCRUE_HAVE_CURL ON)
else()
  set(ACCRUE_HAVE_CURL OFF)
  message(STATUS "accrue: libcurl's headers (libcurl4-openssl-dev) not found; ACCRUE_STORE=etcd://... is refused")
endif()

# Libtorch's headers for CUDA graphs and for NCCL, which is its own, too, need CUDA's, which a toolkit has, or the wheels that
# torch depends on together with nvidia-cuda-crt and nvidia-cuda-cccl; those for NCCL also NCCL's.
set(ACCRUE_HAVE_CUDA_HEADERS OFF)
set(ACCRUE_HAVE_NCCL OFF)
if(Libtorch_CUDA AND ACCRUE_CUDA_LIBRARIES)
  file(GLOB accrue_cuda_wheels ${Libtorch_LIBRARY_DIR}/../../nvidia/*/include)
  find_path(ACCRUE_NCCL_INCLUDE_DIR nccl.h HINTS ${accrue_cuda_wheels})
  find_path(ACCRUE_CUDA_INCLUDE_DIR crt/host_config.h HINTS ${accrue_cuda_wheels} PATHS /usr/local/cuda/include)
  find_path(ACCRUE_CCCL_INCLUDE_DIR nv/target HINTS ${accrue_cuda_wheels} PATHS /usr/local/cuda/include
            PATH_SUFFIXES cccl)
  if(ACCRUE_CUDA_INCLUDE_DIR AND ACCRUE_CCCL_INCLUDE_DIR)
    set(ACCRUE_HAVE_CUDA_HEADERS ON)
    set(ACCRUE_CUDA_INCLUDE_DIRS ${ACCRUE_CUDA_INCLUDE_DIR} ${ACCRUE_CCCL_INCLUDE_DIR} ${accrue_cuda_wheels})
  else()
    message(STATUS "accrue: CUDA's headers not found; no CUDA graphs, and ranks with GPUs go through Gloo")
  endif()
  if(ACCRUE_HAVE_GLOO AND ACCRUE_HAVE_CUDA_HEADERS AND ACCRUE_NCCL_INCLUDE_DIR)
    set(ACCRUE_HAVE_NCCL ON)
  elseif(ACCRUE_HAVE_CUDA_HEADERS)
    message(STATUS "accrue: NCCL's headers, or c10d, not found; ranks with GPUs go through Gloo")
  endif()
endif()

find_path(ACCRUE_HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
find_library(ACCRUE_HWY_LIBRARY NAMES hwy REQUIRED)
find_path(ACCRUE_RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
find_path(ACCRUE_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(ACCRUE_TOMLPP_INCLUDE_DIR toml++/toml.h REQUIRED)
find_path(ACCRUE_SIMDJSON_INCLUDE_DIR simdjson.h REQUIRED)
find_library(ACCRUE_SIMDJSON_LIBRARY NAMES simdjson REQUIRED)
find_path(ACCRUE_SPNG_INCLUDE_DIR spng.h REQUIRED)
find_library(ACCRUE_SPNG_LIBRARY NAMES spng REQUIRED)
find_package(JPEG REQUIRED)
find_path(ACCRUE_ICU_INCLUDE_DIR unicode/normalizer2.h REQUIRED)
find_library(ACCRUE_ICU_LIBRARY NAMES icuuc REQUIRED)
find_path(ACCRUE_PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_library(ACCRUE_PCRE2_LIBRARY NAMES pcre2-8 REQUIRED)
find_path(ACCRUE_PROTOZERO_INCLUDE_DIR protozero/pbf_builder.hpp REQUIRED)
find_path(ACCRUE_ISAL_INCLUDE_DIR isa-l/crc.h REQUIRED)
find_library(ACCRUE_ISAL_LIBRARY NAMES isal REQUIRED)
find_path(ACCRUE_SODIUM_INCLUDE_DIR sodium.h REQUIRED)
find_library(ACCRUE_SODIUM_LIBRARY NAMES sodium REQUIRED)
find_package(CLI11 REQUIRED)

# Parquet files are read by Arrow: an installed one, or that in the wheel of pyarrow, which has its headers and libraries.
if(ACCRUE_PARQUET)
  find_path(ACCRUE_ARROW_INCLUDE_DIR parquet/arrow/reader.h HINTS ${ACCRUE_PYARROW}/include REQUIRED)
  find_library(ACCRUE_ARROW_LIBRARY NAMES arrow libarrow.so.2600 HINTS ${ACCRUE_PYARROW} REQUIRED)
  find_library(ACCRUE_PARQUET_LIBRARY NAMES parquet libparquet.so.2600 HINTS ${ACCRUE_PYARROW} REQUIRED)
  get_filename_component(arrow_folder ${ACCRUE_ARROW_LIBRARY} DIRECTORY)
  list(APPEND ACCRUE_RUNTIME_DIRS ${arrow_folder})
endif()

if(ACCRUE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_path(ACCRUE_STB_INCLUDE_DIR stb_image_write.h PATH_SUFFIXES stb REQUIRED)
endif()
if(ACCRUE_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
