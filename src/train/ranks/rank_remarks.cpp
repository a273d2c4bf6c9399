#include "train/ranks/rank_remarks.h"

#include "core/joint_state.h"
#include "core/words.h"
#include "train/config/toml/value.h"
#include "train/ranks/outer_settings.h"

namespace accrue::train {
namespace {

bool sums_compressed(const Config& config, std::int64_t world) {
  return config.dist.compress != distributed::Compression::none &&
         !config.dist.takes_outer_steps() && world > 1;
}

bool holds_leftovers(const Resumed* resumed) {
  return resumed != nullptr && !state_under(compression_prefix, resumed->ranks).empty();
}

std::string of_idle_ranks(const Config& config, const EffectiveBatch& batch) {
  const auto ranks = static_cast<std::int64_t>(batch.by_rank.size());
  const std::int64_t idle = batch.idle_ranks();
  const std::int64_t each = batch.samples() / ranks;
  return std::to_string(idle) + " of " + std::to_string(ranks) +
         (idle == 1 ? " ranks has" : " ranks have") + " nothing to do: the batch of " +
         counted(batch.samples(), "sample") + " is " + in_words(batch) + "; try " +
         (each > 0 ? micro_batch_advice(config, std::to_string(each)) + ", or less"
                   : "fewer ranks, or a larger batch");
}

std::string of_usual_outer_rates(const DistConfig& dist) {
  const distributed::OuterOptions usual = outer_settings(dist);
  return "dist.outer = {lr = " + to_toml(Value{usual.lr}) +
         ", momentum = " + to_toml(Value{usual.momentum}) +
         "}: the usual rates, as none are stated, measured for rounds of 8 to 64 local steps "
         "(here " +
         std::to_string(dist.local_steps) + ")";
}

}  // namespace

std::vector<std::string> rank_remarks(const Config& config, const EffectiveBatch& batch,
                                      std::int64_t world, const Resumed* resumed) {
  std::vector<std::string> remarks;
  if (batch.idle_ranks() > 0) remarks.push_back(of_idle_ranks(config, batch));
  if (has_usual_outer_rates(config.dist)) remarks.push_back(of_usual_outer_rates(config.dist));
  const std::string compress = "dist.compress = " + in_quotes(to_string(config.dist.compress));
  if (sums_compressed(config, world) && config.dist.reduce == Reduce::overlap)
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
