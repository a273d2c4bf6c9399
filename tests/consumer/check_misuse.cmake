# Builds a file of mistakes, which must fail with a sentence for each and little else.
execute_process(COMMAND ${CMAKE_COMMAND} --build ${ACCRUE_BUILD_DIR} --target misuse
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "misuse.cpp compiles")
endif()
foreach(sentence IN ITEMS
        "loss_fn must return accrue::Loss{sum, weight}" "accrue::Loss{mean * n, n}"
        "loss_fn must be callable as loss_fn(model, slice)"
        "the model must have parameters()" "declare batch_size(batch) and batch_slice(batch, begin, end)"
        "backward takes accrue::Loss{sum, weight} and not a tensor")
  string(FIND "${output}" "${sentence}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "the compiler does not say \"${sentence}\" but\n${output}")
  endif()
endforeach()
# An accumulator, its scope and the wrapped optimizer say the same.
string(REGEX MATCHALL "error: [^\n]*backward takes accrue::Loss" refused_tensors "${output}")
list(LENGTH refused_tensors count)
if(NOT count EQUAL 3)
  message(FATAL_ERROR "${count} of 3 tensors are refused as losses:\n${output}")
endif()
string(REGEX MATCHALL "error: " errors "${output}")
list(LENGTH errors count)
if(NOT count EQUAL 7)
  message(FATAL_ERROR "${count} errors for 7 mistakes:\n${output}")
endif()
