# `find_package(accrue)` from an installed tree: one target a room, and accrue::accrue for all of them.
include(CMakePackageConfigHelpers)

add_library(accrue_accrue INTERFACE)
add_library(accrue::accrue ALIAS accrue_accrue)
set_target_properties(accrue_accrue PROPERTIES EXPORT_NAME accrue)
get_property(accrue_rooms GLOBAL PROPERTY ACCRUE_ROOMS)
target_link_libraries(accrue_accrue INTERFACE ${accrue_rooms})

install(TARGETS ${accrue_rooms} accrue_openmp accrue_accrue EXPORT accrue-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/accrue DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/include/accrue/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/accrue)

set(accrue_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/accrue)
install(EXPORT accrue-targets NAMESPACE accrue:: DESTINATION ${accrue_config_dir})
get_filename_component(ACCRUE_LIBTORCH_DIR ${Libtorch_LIBRARY_DIR} DIRECTORY)
set(ACCRUE_ONEDNN_DIR ${dnnl_DIR})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/accrue-config.cmake.in ${PROJECT_BINARY_DIR}/accrue-config.cmake
  INSTALL_DESTINATION ${accrue_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/accrue-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindLibtorch.cmake
              ${PROJECT_BINARY_DIR}/accrue-config.cmake
              ${PROJECT_BINARY_DIR}/accrue-config-version.cmake DESTINATION ${accrue_config_dir})
