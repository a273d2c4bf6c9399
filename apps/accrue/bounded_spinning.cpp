// How long the threads of a parallel region wait by spinning (docs/notes/spinning.md).
//
// libgomp reads its environment as it is loaded, and spins for milliseconds where that says
// nothing: on cores that another program wants, too, each region then takes as long as the
// scheduler lets it spin. There is no call to change that later, and what this process puts into
// its environment before libc is initialised is lost. So the program begins anew with one variable
// more, before any library's constructor has run: that takes some 20 ms. A user's own settings stay
// as they are.
#include <unistd.h>

#include <array>

#include "before_libraries.h"

namespace accrue::cli {
namespace {

constexpr const char* kBounded = "GOMP_SPINCOUNT=1000";
constexpr std::array kUsersOwn{"OMP_WAIT_POLICY=", "GOMP_SPINCOUNT="};
constexpr std::size_t kMostVariables = 4096, kLongestPath = 4096;

bool begins_with(const char* text, const char* beginning) {
  while (*beginning != '\0')
    if (*text++ != *beginning++) return false;
  return true;
}

bool says_how_to_wait(const char* variable) {
  for (const char* const name : kUsersOwn)
    if (begins_with(variable, name)) return true;
  return false;
}

}  // namespace

void begin_anew_with_bounded_spinning(char** words, char** environment) {
  static std::array<char*, kMostVariables> extended{};
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (says_how_to_wait(environment[count]) || count + 2 == kMostVariables) return;
    extended[count] = environment[count];
  }
  extended[count] = const_cast<char*>(kBounded);
  // It begins anew under its own name, which the process then has. Where this is not possible it
  // goes on as it is.
  static std::array<char, kLongestPath> program{};
  if (::readlink("/proc/self/exe", program.data(), kLongestPath - 1) > 0)
    ::execve(program.data(), words, extended.data());
}

}  // namespace accrue::cli
