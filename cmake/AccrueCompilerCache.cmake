# ccache, if it is installed and no other launcher is set: a second clone of the same sources compiles nothing again.
# Paths below the source folder are hashed relative to the build folder, and precompiled headers by their content
# (the ccache manual, "Precompiled headers" and "Compiling in different directories").
option(ACCRUE_CCACHE "Compile through ccache if it is installed" ON)
if(NOT ACCRUE_CCACHE OR NOT PROJECT_IS_TOP_LEVEL OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
find_program(ACCRUE_CCACHE_PROGRAM ccache)
if(ACCRUE_CCACHE_PROGRAM)
  set(environment "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
                  "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime")
  # Without it g++ leaves a precompiled header out of what ccache reads.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  # __FILE__, which GoogleTest's macros have, and the paths in reports of sanitizers: from the source folder.
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  # clang writes into a precompiled header where what it includes lies, and when that was changed. Paths below the source folder become
  # relative to it, in the variable of clang's that ccache does not hash, and times are left out. CMake would pass the header's whole path
  # in a form in which ccache does not see a path: accrue_add_pch passes its name instead. Where ccache has clang preprocess alone, clang
  # looks for what was precompiled by its path from the source folder.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("SHELL:-Xclang -relocatable-pch" "SHELL:-Xclang -fno-pch-timestamp"
                        "SHELL:-iquote ${PROJECT_SOURCE_DIR}")
    list(APPEND environment "CCC_OVERRIDE_OPTIONS=# +-Xclang +-isysroot +-Xclang +${PROJECT_SOURCE_DIR}")
    set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -Xclang -emit-pch -x c++-header)
    set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
    set(ACCRUE_NAMES_PCH ON)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${environment} ${ACCRUE_CCACHE_PROGRAM})
endif()
