# Helpers that give every room, test binary and benchmark the same shape.

add_library(accrue_options INTERFACE)
target_compile_options(
  accrue_options
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow
            # Options structs are named by designated initializers; the rest keeps its default.
            -Wno-missing-field-initializers
            # g++ 12 sees overlaps and overflows in "literal" + std::string that are not there
            # (GCC bugs 105329, 105545).
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>
            $<$<BOOL:${ACCRUE_WERROR}>:-Werror>)
if(ACCRUE_SANITIZE)
  # Clang's check of dynamic types needs type information that libtorch does not export.
  target_compile_options(accrue_options INTERFACE -fsanitize=${ACCRUE_SANITIZE} -fno-omit-frame-pointer
                                                  $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=vptr>
                                                  # The GCC manual: sanitizers raise its false positives.
                                                  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(accrue_options INTERFACE -fsanitize=${ACCRUE_SANITIZE})
  if(ACCRUE_SANITIZE MATCHES address)
    # libtorch is not instrumented: what it allocates and what tests free do not match leak for leak. No thread is given a stack for
    # signals, since accrue gives threads one, and the sanitizer unmaps whichever it finds.
    set(ACCRUE_SANITIZER_OPTIONS ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:use_sigaltstack=0
                                 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1)
  endif()
  if(ACCRUE_SANITIZE MATCHES thread)
    # libtorch's headers have a fence, of which g++ warns that the thread sanitizer does not know it.
    target_compile_options(accrue_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()
# Compilers before g++ 12 do not take it.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold ACCRUE_LINKS_WITH_MOLD)
if(ACCRUE_LINKS_WITH_MOLD)
  target_link_options(accrue_options INTERFACE -fuse-ld=mold)
endif()

# accrue_without_coverage(TARGET): nothing that is fuzzed is in TARGET, so the counters of libFuzzer are left out of it, which compiles and
# runs faster. By this option, as the precompiled header is with fuzzer-no-link.
function(accrue_without_coverage target)
  if(ACCRUE_SANITIZE MATCHES fuzzer)
    target_compile_options(
      ${target} PRIVATE
      -fno-sanitize-coverage=edge,func,bb,trace-pc,inline-8bit-counters,pc-table,trace-cmp,indirect-calls,stack-depth)
  endif()
endfunction()

# Two precompiled headers: the narrow ATen and autograd headers serve all targets that use torch, and
# torch/torch.h, three times as long to compile, those that build models of torch::nn.
function(accrue_add_pch name)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/support/pch.cpp)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE accrue_torch accrue_options accrue_openmp)
  list(TRANSFORM ARGN REPLACE "(.+)" "<\\1>" OUTPUT_VARIABLE headers)
  target_precompile_headers(${name} PRIVATE ${headers})
  if(ACCRUE_NAMES_PCH)
    foreach(header IN LISTS ARGN)
      target_compile_options(${name} PRIVATE "SHELL:-include ${header}")
    endforeach()
  endif()
endfunction()
accrue_add_pch(accrue_pch support/pch.h)
accrue_add_pch(accrue_frontend_pch torch/torch.h)
# The same for tests, with what nearly all of them include besides. With their flags: tests/CMakeLists.txt.
function(accrue_add_test_pch name)
  accrue_add_pch(${name} ${ARGN} gmock/gmock.h gtest/gtest.h nlohmann/json.hpp)
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest nlohmann_json::nlohmann_json)
endfunction()

# accrue_use_pch(TARGET [FRONTEND] [TEST]): FRONTEND if the target's sources include torch/torch.h, TEST if it is a test.
function(accrue_use_pch target)
  set(pch accrue_pch)
  if("FRONTEND" IN_LIST ARGN)
    set(pch accrue_frontend_pch)
  endif()
  if("TEST" IN_LIST ARGN)
    string(REPLACE pch test_pch pch ${pch})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:accrue_openmp>)
  # A precompiled header fits only the options that it was compiled with: -fopenmp, and -fPIC where CMake
  # would compile executables with -fPIE.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# accrue_add_room(NAME SOURCES ... [DEPENDS room...] [HEADERS_OF room...] [NO_TORCH])
# A static library accrue::NAME of src/NAME with public headers in include/accrue/NAME. Private headers are
# included by their paths from src/. HEADERS_OF: rooms of which it takes public headers alone, and links nothing.
function(accrue_add_room name)
  cmake_parse_arguments(ROOM "NO_TORCH" "" "SOURCES;DEPENDS;HEADERS_OF" ${ARGN})
  add_library(accrue_${name} STATIC ${ROOM_SOURCES})
  add_library(accrue::${name} ALIAS accrue_${name})
  set_target_properties(accrue_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(
    accrue_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                          $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(accrue_${name} PRIVATE $<BUILD_INTERFACE:accrue_options>
                                               accrue_openmp)
  foreach(dependency IN LISTS ROOM_DEPENDS)
    target_link_libraries(accrue_${name} PUBLIC accrue_${dependency})
  endforeach()
  if(NOT ROOM_NO_TORCH)
    target_link_libraries(accrue_${name} PUBLIC $<BUILD_INTERFACE:accrue_torch>
                                                $<INSTALL_INTERFACE:accrue::torch>)
    accrue_use_pch(accrue_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY ACCRUE_ROOMS accrue_${name})
endfunction()

# With sanitizers a source of these takes half a minute to compile for all instruction sets. Tests run the best that the machine has: the others
# are left out, except the one that Highway always has.
set(ACCRUE_UNUSED_SIMD "")
# The sanitizers' build is not optimised, which halves its time, except for sources that compute for long. Unoptimised vectors would be
# calls of functions besides: no less code.
set(ACCRUE_BUSY_OPTIONS "")
if(ACCRUE_SANITIZE MATCHES fuzzer)
  set(ACCRUE_BUSY_OPTIONS -O1)
endif()
if(ACCRUE_SANITIZE AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo processor REGEX "^flags.* avx512f .*avx512bw.*avx512vl" LIMIT_COUNT 1)
  if(processor)
    set(ACCRUE_UNUSED_SIMD "|HWY_SSE4|HWY_AVX2")
  else()
    set(ACCRUE_UNUSED_SIMD "|HWY_AVX3")
  endif()
endif()

# accrue_add_simd_sources(TARGET [SAME_BITS] SOURCES...): sources that Highway compiles once per instruction set and without
# torch; the best is chosen when the program runs. SAME_BITS: with the same results on each, as no product and sum become one.
# Each lies below src/ and includes <hwy/foreach_target.h> before anything else of Highway: that header includes the source again
# for each instruction set, by its path in HWY_TARGET_INCLUDE.
function(accrue_add_simd_sources target)
  cmake_parse_arguments(SIMD "SAME_BITS" "" "" ${ARGN})
  target_sources(${target} PRIVATE ${SIMD_UNPARSED_ARGUMENTS})
  target_include_directories(${target} SYSTEM PRIVATE ${ACCRUE_HWY_INCLUDE_DIR})
  target_link_libraries(${target} PRIVATE ${ACCRUE_HWY_LIBRARY})
  set(disabled HWY_SSSE3|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128|HWY_RVV${ACCRUE_UNUSED_SIMD})
  foreach(source IN LISTS SIMD_UNPARSED_ARGUMENTS)
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/src ${path})
    set_source_files_properties(${source} PROPERTIES
      SKIP_PRECOMPILE_HEADERS ON
      COMPILE_DEFINITIONS "HWY_TARGET_INCLUDE=\"${path}\";HWY_DISABLED_TARGETS=(${disabled})"
      COMPILE_OPTIONS "$<$<BOOL:${SIMD_SAME_BITS}>:-ffp-contract=off>;${ACCRUE_BUSY_OPTIONS}")
  endforeach()
endfunction()

# accrue_add_group(NAME ROOM...): accrue::NAME for rooms, and all that these use.
function(accrue_add_group name)
  add_library(accrue_${name} INTERFACE)
  add_library(accrue::${name} ALIAS accrue_${name})
  set_target_properties(accrue_${name} PROPERTIES EXPORT_NAME ${name})
  foreach(room IN LISTS ARGN)
    target_link_libraries(accrue_${name} INTERFACE accrue_${room})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ACCRUE_ROOMS accrue_${name})
endfunction()

# accrue_add_shards(NAME TARGET SHARDS [ENVIRONMENT]): the GoogleTest binary TARGET as the ctest entry NAME, or as entries NAME.1 to
# NAME.SHARDS with a part of its tests each. All have the label NAME, by which ctest -L finds them.
function(accrue_add_shards name target shards)
  set(entries)
  foreach(shard RANGE 1 ${shards})
    set(entry ${name})
    set(environment ${ARGN} ${ACCRUE_SANITIZER_OPTIONS})
    if(shards GREATER 1)
      set(entry ${name}.${shard})
      math(EXPR index "${shard} - 1")
      list(APPEND environment GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${entry} COMMAND ${target})
    # Two of the places that ctest -j has: it computes. Tests that wait for processes of theirs take one.
    set_tests_properties(${entry} PROPERTIES TIMEOUT 600 LABELS ${name} PROCESSORS 2 ENVIRONMENT "${environment}")
    list(APPEND entries ${entry})
  endforeach()
  set_property(GLOBAL PROPERTY ACCRUE_ENTRIES_${name} ${entries})
endfunction()

# accrue_set_test_properties(NAME PROPERTY VALUE...): a property of each ctest entry of NAME, beside those that it has.
function(accrue_set_test_properties name property)
  get_property(entries GLOBAL PROPERTY ACCRUE_ENTRIES_${name})
  set(append)
  if(property MATCHES "LABELS|ENVIRONMENT|FIXTURES_REQUIRED")
    set(append APPEND)
  endif()
  set_property(TEST ${entries} ${append} PROPERTY ${property} ${ARGN})
endfunction()

# accrue_add_test(ROOM SOURCES ... [DEPENDS room...] [NO_TORCH | FRONTEND] [SHARDS n]): one GoogleTest binary a room; FRONTEND where
# its sources include torch/torch.h; SHARDS: its tests as so many ctest entries, which run beside each other.
function(accrue_add_test room)
  cmake_parse_arguments(TEST "NO_TORCH;FRONTEND" "SHARDS" "SOURCES;DEPENDS" ${ARGN})
  set(target ${room}_test)
  add_executable(${target} ${TEST_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests
                                               ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE accrue_options GTest::gtest GTest::gmock GTest::gtest_main
                                          accrue_openmp)
  foreach(dependency IN LISTS TEST_DEPENDS ITEMS ${room})
    if(TARGET accrue_${dependency})
      target_link_libraries(${target} PRIVATE accrue_${dependency})
    endif()
  endforeach()
  if(NOT TEST_NO_TORCH)
    target_link_libraries(${target} PRIVATE accrue_torch)
    if(TEST_FRONTEND)
      accrue_use_pch(${target} FRONTEND TEST)
    else()
      accrue_use_pch(${target} TEST)
    endif()
  endif()
  if(NOT TEST_SHARDS)
    set(TEST_SHARDS 1)
  endif()
  accrue_without_coverage(${target})
  accrue_add_shards(${room} ${target} ${TEST_SHARDS})
endfunction()

# accrue_add_cuda_library(NAME SOURCES ...): libaccrue_NAME.so, one of the few parts that need CUDA's own headers and libtorch's part
# for CUDA. It is loaded where it is needed and not linked, so that a program with it runs on machines without a GPU.
function(accrue_add_cuda_library name)
  cmake_parse_arguments(PARSE_ARGV 1 LIBRARY "" "" "SOURCES")
  add_library(accrue_${name} MODULE ${LIBRARY_SOURCES})
  target_include_directories(accrue_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(accrue_${name} SYSTEM PRIVATE ${ACCRUE_CUDA_INCLUDE_DIRS})
  target_link_libraries(accrue_${name} PRIVATE accrue_options accrue_torch Libtorch::Cuda)
  set_target_properties(accrue_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS accrue_${name} LIBRARY DESTINATION lib/accrue)
  install(PROGRAMS $<TARGET_FILE:accrue_${name}> DESTINATION accrue/bin COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

# accrue_take_cuda_libraries(TARGET): puts those libraries beside TARGET, where they are looked for.
function(accrue_take_cuda_libraries target)
  foreach(library IN ITEMS accrue_graphs accrue_nccl)
    if(TARGET ${library})
      add_custom_command(TARGET ${target} POST_BUILD
                         COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:${library}> $<TARGET_FILE_DIR:${target}>)
      add_dependencies(${target} ${library})
    endif()
  endforeach()
endfunction()

# accrue_add_generic_test(ROOM [ALL] [SHARDS n]): the same tests once more, by operators of ATen alone; with ALL `make test-all` runs them.
function(accrue_add_generic_test room)
  cmake_parse_arguments(TEST "ALL" "SHARDS" "" ${ARGN})
  target_sources(${room}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/chosen_kernels.cpp)
  if(TEST_ALL)
    return()
  endif()
  if(NOT TEST_SHARDS)
    set(TEST_SHARDS 1)
  endif()
  accrue_add_shards(${room}_generic ${room}_test ${TEST_SHARDS} ACCRUE_TEST_KERNELS=generic)
endfunction()
