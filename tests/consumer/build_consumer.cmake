function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}")
  endif()
endfunction()

set(work ${ACCRUE_BUILD_DIR}/consumer)
file(REMOVE_RECURSE ${work})
# A copy, so that nothing of the source tree can be found by accident.
file(COPY ${ACCRUE_SOURCE_DIR}/examples/cmake_project DESTINATION ${work})
run(${CMAKE_COMMAND} --install ${ACCRUE_BUILD_DIR} --prefix ${work}/accrue)
set(ENV{CMAKE_PREFIX_PATH} "${work}/accrue")
run(${CMAKE_COMMAND} -S ${work}/cmake_project -B ${work}/build -G ${ACCRUE_GENERATOR}
    -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/first_steps)
run(${work}/accrue/bin/accrue --version)
