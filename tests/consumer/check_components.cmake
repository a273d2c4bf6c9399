# find_package(accrue COMPONENTS ...) of a component that accrue has not: one sentence that says what to write instead.
function(expect_refused name words)
  set(project ${ACCRUE_BUILD_DIR}/consumer_components/${name})
  file(REMOVE_RECURSE ${project})
  file(WRITE ${project}/CMakeLists.txt
       "cmake_minimum_required(VERSION 3.22)\nproject(components LANGUAGES NONE)\nfind_package(accrue ${words})\n"
       "if(NOT accrue_FOUND)\n  message(FATAL_ERROR \"not found\")\nendif()\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${project} -B ${project}/build -Daccrue_DIR=${ACCRUE_BUILD_DIR}
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(status EQUAL 0)
    message(FATAL_ERROR "find_package(accrue ${words}) is taken")
  endif()
  string(FIND "${output}" "find_package(accrue): expected no COMPONENTS, as accrue::accrue has all of accrue, received \"nonsense\"; try find_package(accrue REQUIRED)"
         position)
  if(position EQUAL -1)
    message(FATAL_ERROR "find_package(accrue ${words}) does not say what is wrong but ${output}")
  endif()
endfunction()

expect_refused(required "REQUIRED COMPONENTS nonsense")
expect_refused(first_of_two "REQUIRED COMPONENTS nonsense torch")
expect_refused(not_required "COMPONENTS nonsense")
