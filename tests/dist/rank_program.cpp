// One rank of the tests' groups: `dist_rank SCENARIO WORDS...`, with a launcher's variables. What
// it finds goes to stdout, errors as the command line prints them.

#include <ATen/Parallel.h>

#include <iostream>

#include "accrue/core/error.h"
#include "rank_scenarios.h"

namespace accrue::dist {
namespace {

int run(const std::string& name, const Words& words) {
  at::set_num_threads(1);
  const auto scenario = scenarios().find(name);
  if (scenario == scenarios().end()) return 127;
  try {
    scenario->second(launch_of(this_environment()), words);
    return 0;
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return error.exit_code();
  }
}

}  // namespace
}  // namespace accrue::dist

int main(int count, char** words) {
  return count < 2 ? 127 : accrue::dist::run(words[1], {words + 2, words + count});
}
