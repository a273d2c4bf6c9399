#include "before_libraries.h"

namespace accrue::cli {
namespace {

void before_libraries(int /*count*/, char** words, char** environment) {
  expect_working_directory();
  expect_address_space();
  hold_signals();
  begin_anew_with_bounded_spinning(words, environment);
}

using BeforeLibraries = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used]] const BeforeLibraries at_the_beginning =
    before_libraries;

}  // namespace
}  // namespace accrue::cli
