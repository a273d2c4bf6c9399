# ccache, if it is installed and no other launcher is set: a second clone of the same sources compiles nothing again.
# Paths below the source folder are hashed relative to the build folder, and precompiled headers by their content
# (the ccache manual, "Precompiled headers" and "Compiling in different directories").
option(ACCRUE_CCACHE "Compile through ccache if it is installed" ON)
if(NOT ACCRUE_CCACHE OR NOT PROJECT_IS_TOP_LEVEL OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
find_program(ACCRUE_CCACHE_PROGRAM ccache)
if(ACCRUE_CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" ${ACCRUE_CCACHE_PROGRAM})
  # Without it g++ leaves a precompiled header out of what ccache reads.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  # GoogleTest's macros have __FILE__: from the source folder, so that it is the same in each clone.
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
endif()
