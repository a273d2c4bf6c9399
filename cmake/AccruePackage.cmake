# The command as a Debian package: `cpack -G DEB`, after the target accrue_packaged is built (`make deb`). It holds what the command
# needs and Debian does not have, except libtorch: packaging/accrue.in, which is /usr/bin/accrue, finds that where the user has it.
configure_file(${PROJECT_SOURCE_DIR}/packaging/accrue.in ${PROJECT_BINARY_DIR}/packaging/accrue @ONLY)

set(into_package COMPONENT package EXCLUDE_FROM_ALL)
install(PROGRAMS ${PROJECT_BINARY_DIR}/packaging/accrue DESTINATION bin ${into_package})
install(TARGETS accrue_packaged RUNTIME_DEPENDENCY_SET accrue_packaged_libraries RUNTIME DESTINATION lib/accrue ${into_package})
# Of the libraries those alone that are of no Debian package, such as oneDNN. In a folder where ldconfig has nothing to look for.
install(RUNTIME_DEPENDENCY_SET accrue_packaged_libraries
        PRE_EXCLUDE_REGEXES "^libtorch" "^libc10" "^libgomp" POST_EXCLUDE_REGEXES "^/lib" "^/usr/lib"
        DIRECTORIES ${ACCRUE_RUNTIME_DIRS} LIBRARY DESTINATION lib/accrue/lib ${into_package})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/accrue RENAME copyright ${into_package})
install(FILES ${PROJECT_SOURCE_DIR}/third_party/uplot/LICENSE DESTINATION share/doc/accrue RENAME LICENSE.uplot ${into_package})
file(GLOB onednn_license ${dnnl_DIR}/../../../share/doc/*/LICENSE)
file(GLOB arrow_license ${ACCRUE_PYARROW}/../pyarrow-*.dist-info/licenses/LICENSE.txt)
foreach(name IN ITEMS onednn arrow)
  if(${name}_license)
    install(FILES ${${name}_license} DESTINATION share/doc/accrue RENAME LICENSE.${name} ${into_package})
  endif()
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};accrue;package;/")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "the accrue developers")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-venv, libcurl4")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${Libtorch_LIBRARY_DIR})
include(CPack)
