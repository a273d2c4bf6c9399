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
        "use of deleted function 'void accrue::Accumulator::backward(const at::Tensor&)'")
  string(REPLACE "‘" "'" output "${output}")
  string(REPLACE "’" "'" output "${output}")
  string(FIND "${output}" "${sentence}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "the compiler does not say \"${sentence}\" but\n${output}")
  endif()
endforeach()
string(REGEX MATCHALL "error: " errors "${output}")
list(LENGTH errors count)
if(NOT count EQUAL 5)
  message(FATAL_ERROR "${count} errors for 5 mistakes:\n${output}")
endif()
