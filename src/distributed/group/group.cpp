#include "accrue/distributed/group.h"

#include <iostream>

#include "distributed/group/among_ranks.h"

namespace accrue::distributed {

at::Tensor Group::reduce_scatter(const at::Tensor& rows) { return add_in_order(all_to_all(rows)); }

void tell_on_standard_error(const std::string& line) { std::cerr << line + "\n" << std::flush; }

std::shared_ptr<Group> join(const GroupOptions& options) {
  const Launch launch = launch_of(this_environment());
  return launch.world > 1 ? connect(launch, options) : nullptr;
}

void run_together(Group* group, const std::function<void()>& body) {
  among_ranks(group, [&] {
    body();
    if (group != nullptr) group->barrier("the end");
  });
}

}  // namespace accrue::distributed
