# Has OpenMP::OpenMP_CXX link OpenMP by the compiler's flag. FindOpenMP links it by the path of the compiler's libgomp.
# libtorch's wheel has a libgomp of the same name beside its libraries, which a program loads in its place, so CMake would
# warn for each program that no safe runtime search path can be made.
if(OpenMP_CXX_FLAGS)
  separate_arguments(accrue_openmp_flags NATIVE_COMMAND "${OpenMP_CXX_FLAGS}")
  set_property(TARGET OpenMP::OpenMP_CXX PROPERTY INTERFACE_LINK_LIBRARIES ${accrue_openmp_flags})
  unset(accrue_openmp_flags)
endif()
