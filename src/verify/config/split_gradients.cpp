#include "verify/config/split_gradients.h"

#include "memory/out_of_memory.h"
#include "verify/config/ranked_window.h"

namespace accrue::proof {

Split split_of_ranks(const train::Workload& work, std::int64_t ranks, std::int64_t micro) {
  Split split = even_split(work.schedule.window(0), micro);
  split.name =
      std::to_string(ranks) + (work.config.dist.stages > 1 ? " stages, " : " ranks, ") + split.name;
  return split;
}

std::variant<Gradients, std::string> by_ranks(ConfigSubject& subject, const train::Workload& work,
                                              std::int64_t ranks,
                                              const train::MicroDecision& micro) {
  if (std::optional<std::string> reason = why_ranks_are_skipped(work.config, ranks)) return *reason;
  try {
    return subject.by_ranks(ranks, micro);
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    return "a copy of the model for each does not fit into memory; a larger memory.budget has it";
  }
}

}  // namespace accrue::proof
