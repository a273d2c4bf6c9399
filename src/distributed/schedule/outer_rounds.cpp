#include "distributed/schedule/outer_rounds.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "core/joint_state.h"
#include "distributed/compress/compressed_sums.h"

namespace accrue::distributed {
namespace {

constexpr const char* kOuter = "outer.";
constexpr const char* kCompression = "compression.";

/// Makes the compressor of the flat difference: parameters one after the other.
std::unique_ptr<Compressor> compressor_of(const NamedParameters& parameters,
                                          Compression compression, std::int64_t world) {
  std::int64_t elements = 0;
  std::vector<MatrixRange> matrices;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.scalar_type() != at::kFloat)
      throw usage_error("compress outer gradients", "parameters in fp32",
                        name + " in " + at::toString(tensor.scalar_type()),
                        "dist.compress = \"none\"");
    if (const auto matrix = as_matrix(tensor, elements)) matrices.push_back(*matrix);
    elements += tensor.numel();
  }
  return make_compressor(compression, elements, std::move(matrices), world);
}

at::Tensor row_of(const RoundShare& share) {
  std::vector<double> row{static_cast<double>(share.steps), share.weight};
  row.insert(row.end(), share.rank_sums.begin(), share.rank_sums.end());
  return at::tensor(row, at::kDouble);
}

void require_one_step(const at::Tensor& steps) {
  if ((steps == steps[0]).all().item<bool>()) return;
  std::string received;
  for (std::int64_t rank = 0; rank < steps.numel(); ++rank)
    received += (rank == 0 ? "step " : ", step ") +
                std::to_string(static_cast<std::int64_t>(steps[rank].item<double>())) +
                " on rank " + std::to_string(rank);
  throw runtime_error("outer step", "a round that ends at the same step on all ranks", received,
                      "resuming all ranks from one checkpoint");
}

}  // namespace

OuterRounds::OuterRounds(std::shared_ptr<Group> group, NamedParameters parameters,
                         const OuterOptions& options, Compression compress)
    : group_(std::move(group)), outer_(parameters, options) {
  if (group_ && compress != Compression::none)
    compressor_ = compressor_of(parameters, compress, group_->world());
}

OuterRounds::~OuterRounds() = default;

RoundTotals OuterRounds::end(const RoundShare& share) {
  const Stopwatch watch;
  const std::int64_t sent_before = group_ ? group_->wire_bytes() : 0;
  RoundTotals totals = totals_of(share);
  if (totals.weight > 0) outer_.step(mean_difference(share.weight / totals.weight));
  totals.reduce_seconds = watch.seconds();
  if (group_) totals.wire_bytes = group_->wire_bytes() - sent_before;
  return totals;
}

RoundTotals OuterRounds::totals_of(const RoundShare& share) const {
  if (!group_) return {.weight = share.weight, .rank_sums = share.rank_sums};
  const at::Tensor rows = group_->all_gather(row_of(share));
  require_one_step(rows.select(1, 0));
  const at::Tensor sums = add_in_order(rows);
  const double* const values = sums.const_data_ptr<double>();
  return {.weight = values[1], .rank_sums = {values + 2, values + sums.numel()}};
}

at::Tensor OuterRounds::mean_difference(double share_of_weight) {
  at::Tensor difference = outer_.difference();
  difference.mul_(share_of_weight);
  if (compressor_) {
    compressor_->sum(difference, 1, *group_);
  } else if (group_) {
    group_->start_sum(difference, "the outer step")->wait();
  }
  return difference;
}

NamedParameters OuterRounds::state() const {
  NamedParameters state;
  append_state(state, kOuter, outer_.state());
  if (compressor_) append_state(state, kCompression, compressor_->state(*group_));
  return state;
}

/// One process has no compressor, and a checkpoint of it has no compressor's state.
void OuterRounds::load_state(const StoredTensors& state) {
  outer_.load_state(state_under(kOuter, state));
  if (compressor_) compressor_->load_state(state_under(kCompression, state), group_->rank());
}

}  // namespace accrue::distributed
