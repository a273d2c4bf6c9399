// One rank of the tests' groups: `rank_program SCENARIO WORDS...`, with a launcher's variables.
// Results go to stdout, errors as the command line prints them.

#include <ATen/Parallel.h>

#include "rank_scenarios.h"
#include "renewal_scenarios.h"
#include "stranger_scenarios.h"
#include "support/exit_status.h"

namespace accrue::distributed {
namespace {

int run(const std::string& name, const Words& words) {
  at::set_num_threads(1);
  const auto& table = stranger_scenarios().contains(name)  ? stranger_scenarios()
                      : renewal_scenarios().contains(name) ? renewal_scenarios()
                                                           : scenarios();
  const auto scenario = table.find(name);
  if (scenario == table.end()) return 127;
  line_up("here");  // their starting time must not count in the tested timeouts
  return accrue::testing::exit_status_of([&] {
    scenario->second(launch_of(this_environment()), words);
    return 0;
  });
}

}  // namespace
}  // namespace accrue::distributed

int main(int count, char** words) {
  return count < 2 ? 127 : accrue::distributed::run(words[1], {words + 2, words + count});
}
