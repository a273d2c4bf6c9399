#include "rank_remarks.h"

#include "accrue/core/joint_state.h"

namespace accrue::train {
namespace {

bool sums_compressed(const Config& config, std::int64_t world) {
  return config.dist.compress != "none" && !config.dist.takes_outer_steps() && world > 1;
}

bool holds_leftovers(const Resumed* resumed) {
  return resumed != nullptr && !state_under(compression_prefix, resumed->ranks).empty();
}

}  // namespace

std::vector<std::string> rank_remarks(const Config& config, std::int64_t world,
                                      const Resumed* resumed) {
  std::vector<std::string> remarks;
  const std::string compress = "dist.compress = \"" + config.dist.compress + "\"";
  if (sums_compressed(config, world) && config.dist.reduce == "overlap")
    remarks.push_back(compress +
                      ": nothing overlaps, since what earlier sums left out is converted by the "
                      "window's total weight, which is known when the backward is done");
  const bool continues = resumed != nullptr && !resumed->checkpoint.empty();
  if (sums_compressed(config, world) && continues && !holds_leftovers(resumed))
    remarks.push_back(compress +
                      ": the checkpoint was written by one process or after a failure, without "
                      "what the last sum left out, which is lost");
  if (world == 1 && holds_leftovers(resumed))
    remarks.push_back(compress +
                      ": one process compresses nothing, and what the last sum of several ranks "
                      "left out is lost");
  return remarks;
}

}  // namespace accrue::train
