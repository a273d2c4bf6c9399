#include "distributed/schedule/outer_rounds.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "core/helper_thread.h"
#include "core/joint_state.h"
#include "distributed/compress/compressed_sums.h"
#include "distributed/compress/named_state.h"
#include "support/single_core_scope.h"

namespace accrue::distributed {
namespace {

constexpr const char* kOuter = "outer.";
constexpr const char* kCompression = "compression.";
constexpr std::chrono::seconds kPatience{1};

/// Makes the compressor of a part's flat difference: its parameters are concatenated.
std::unique_ptr<Compressor> compressor_of(const NamedParameters& parameters, const OuterPart& part,
                                          Compression compression, std::int64_t world) {
  std::int64_t elements = 0;
  std::vector<MatrixRange> matrices;
  for (std::size_t i = part.first; i < part.last; ++i) {
    const auto& [name, tensor] = parameters[i];
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

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more.at(i);
}

/// `own` with its "shares" extended to the length of those of `now`. Requests, which come last, are
/// saved as 0, and so are sums that were added after them.
StoredTensors with_all_sums(StoredTensors own, const NamedParameters& now) {
  const auto shares = std::ranges::find(own, "shares", &StoredTensor::name);
  const auto whole = std::ranges::find(now, "shares", &NamedParameter::name);
  if (shares == own.end() || whole == now.end() || shares->shape.size() != 1) return own;
  const std::int64_t kept = shares->shape[0], wanted = whole->tensor.numel();
  if (kept >= wanted || shares->dtype != at::kDouble) return own;
  const at::Tensor padded = at::zeros({wanted}, at::kDouble);
  padded.narrow(0, 0, kept).copy_(shares->read());
  *shares = stored({{"shares", padded}}).front();
  return own;
}

}  // namespace

OuterRounds::OuterRounds(std::shared_ptr<Group> group, const NamedParameters& parameters,
                         Setting setting)
    : group_(std::move(group)),
      setting_(std::move(setting)),
      schedule_(setting_.outer),
      outer_(parameters, setting_.outer),
      weights_(outer_.parts().size()),
      rank_sums_(setting_.rank_sums),
      sent_at_(outer_.parts().size()),
      totals_{.rank_sums = std::vector<double>(setting_.rank_sums)} {
  if (!group_ || setting_.compress == Compression::none) return;
  for (const OuterPart& part : outer_.parts())
    compressors_.push_back(compressor_of(parameters, part, setting_.compress, group_->world()));
}

OuterRounds::~OuterRounds() {
  for (const PendingExchange& message : under_way_) message.exchanged.wait();
}

OuterOutcome OuterRounds::after_step(const RoundShare& share, bool ends_run) {
  const Stopwatch watch;
  OuterOutcome outcome;
  add_share(share);
  if (const auto part = schedule_.sent_after(share.steps)) send(*part, share.steps);
  if (merges_after(share.steps)) merge_oldest(outcome);
  if (ends_run) merge_all(share.steps, outcome);
  if (ends_run || ends_round(share.steps)) outcome.totals = end_round();
  outcome.exposed_seconds = watch.seconds();
  return outcome;
}

RoundTotals OuterRounds::end_round() {
  if (schedule_.leaves_differences()) own_parameters_ = outer_.put_start_in_place();
  return std::exchange(totals_, {.rank_sums = std::vector<double>(setting_.rank_sums)});
}

void OuterRounds::add_share(const RoundShare& share) {
  for (double& weight : weights_) weight += share.weight;
  add_to(rank_sums_, share.rank_sums);
}

OuterRounds::Message OuterRounds::message_of(std::size_t part, std::int64_t steps) {
  Message message{.part = part};
  message.sent = outer_.parameters(part);
  message.difference = outer_.difference(message.sent, part);
  const std::vector<double> nothing(setting_.rank_sums);
  message.share = {.steps = steps,
                   .weight = std::exchange(weights_[part], 0),
                   .rank_sums = is_last(part) ? std::exchange(rank_sums_, nothing) : nothing};
  sent_at_[part] = steps;
  return message;
}

void OuterRounds::send(std::size_t part, std::int64_t steps) {
  const Message message = message_of(part, steps);
  const bool is_merged_at_once = setting_.outer.delay == 0;
  PendingExchange under_way{.part = part, .steps = steps};
  if (!is_merged_at_once) under_way.sent = message.sent;
  under_way.exchanged = is_merged_at_once ? completed_exchange(message) : begin(message);
  under_way_.push_back(std::move(under_way));
}

std::shared_future<OuterRounds::ExchangeResult> OuterRounds::completed_exchange(
    const Message& message) const {
  std::promise<ExchangeResult> done;
  done.set_value(exchange(message));
  return done.get_future().share();
}

/// Exchanges are made one after the other, on every rank in the same order.
std::shared_future<OuterRounds::ExchangeResult> OuterRounds::begin(const Message& message) {
  std::shared_future<ExchangeResult> before;
  if (!under_way_.empty()) before = under_way_.back().exchanged;
  HelperTask<ExchangeResult> begun = run_on_helper([this, message, before] {
    const SingleCoreScope beside_the_training;
    if (before.valid()) before.get();
    return exchange(message);
  });
  if (begun.in_place && !std::exchange(exchanges_in_place_, true) && setting_.say_waiting)
    setting_.say_waiting(in_place_in_words("parts are exchanged"));
  return begun.result.share();
}

void OuterRounds::merge_oldest(OuterOutcome& outcome) {
  const PendingExchange& oldest = under_way_.front();
  const ExchangeResult& exchanged = wait_for(oldest);
  if (exchanged.mean_difference.defined())
    outer_.step(exchanged.mean_difference, oldest.part, oldest.sent);
  if (is_last(oldest.part)) {
    totals_.weight += exchanged.totals.weight;
    add_to(totals_.rank_sums, exchanged.totals.rank_sums);
  }
  outcome.merged = true;
  outcome.reduce_seconds += exchanged.seconds;
  outcome.wire_bytes += exchanged.wire_bytes;
  under_way_.pop_front();
}

/// A part that was sent before this step has changed since, and is sent again.
void OuterRounds::merge_all(std::int64_t steps, OuterOutcome& outcome) {
  while (!under_way_.empty()) merge_oldest(outcome);
  for (std::size_t part = 0; part < outer_.parts().size(); ++part) {
    if (sent_at_[part] == steps) continue;
    send(part, steps);
    merge_oldest(outcome);
  }
}

const OuterRounds::ExchangeResult& OuterRounds::wait_for(const PendingExchange& under_way) const {
  const auto state = under_way.exchanged.wait_for(kPatience);
  if (state != std::future_status::ready && setting_.say_waiting)
    setting_.say_waiting(
        "part " + std::to_string(under_way.part + 1) + " of " +
        std::to_string(outer_.parts().size()) + ", sent after step " +
        std::to_string(under_way.steps) +
        ", is due and not there: its exchange takes longer than dist.outer.delay (" +
        std::to_string(setting_.outer.delay) + " inner steps), and this rank waits for it");
  return under_way.exchanged.get();
}

OuterRounds::ExchangeResult OuterRounds::exchange(const Message& message) const {
  RECORD_USER_SCOPE("outer: exchange");
  const Stopwatch watch;
  const at::NoGradGuard no_grad;
  const std::int64_t sent_before = group_ ? group_->wire_bytes() : 0;
  ExchangeResult exchanged{.totals = totals_of(message)};
  if (exchanged.totals.weight > 0) {
    exchanged.mean_difference = message.difference;
    exchanged.mean_difference.mul_(message.share.weight / exchanged.totals.weight);
    add_up(exchanged.mean_difference, message.part);
  }
  exchanged.seconds = watch.seconds();
  if (group_) exchanged.wire_bytes = group_->wire_bytes() - sent_before;
  return exchanged;
}

RoundTotals OuterRounds::totals_of(const Message& message) const {
  const RoundShare& share = message.share;
  if (!group_) return {.weight = share.weight, .rank_sums = share.rank_sums};
  const at::Tensor rows = group_->all_gather(row_of(share));
  require_one_step(rows.select(1, 0));
  const at::Tensor sums = add_in_order(rows);
  const double* const values = sums.const_data_ptr<double>();
  return {.weight = values[1], .rank_sums = {values + 2, values + sums.numel()}};
}

void OuterRounds::add_up(const at::Tensor& differences, std::size_t part) const {
  if (!compressors_.empty()) {
    compressors_[part]->sum(differences, 1, *group_);
  } else if (group_) {
    group_->start_sum(differences, "the outer step")->wait();
  }
}

void OuterRounds::go_on() {
  if (!is_set_aside()) return;
  outer_.put_back(own_parameters_);
  own_parameters_.reset();
}

std::string OuterRounds::prefix_of(std::size_t part) const {
  const bool is_whole = outer_.parts().size() == 1;
  return is_whole ? kCompression : kCompression + std::to_string(part) + ".";
}

NamedParameters OuterRounds::state() const {
  NamedParameters state;
  append_state(state, kOuter, outer_.state());
  for (std::size_t part = 0; part < compressors_.size(); ++part)
    append_state(state, prefix_of(part), compressors_[part]->state(*group_));
  return state;
}

/// One process has no compressor, and a checkpoint of it has no compressor's state.
void OuterRounds::load_state(const StoredTensors& state) {
  outer_.load_state(state_under(kOuter, state));
  for (std::size_t part = 0; part < compressors_.size(); ++part)
    compressors_[part]->load_state(state_under(prefix_of(part), state), group_->rank());
}

NamedParameters OuterRounds::own_state() const {
  if (!schedule_.leaves_differences()) return {};
  std::vector<double> shares = weights_;
  shares.insert(shares.end(), rank_sums_.begin(), rank_sums_.end());
  std::fill_n(shares.rbegin(), setting_.requests, 0);
  return {{"parameters", is_set_aside() ? own_parameters_.clone() : outer_.all_parameters()},
          {"shares", at::tensor(shares, at::kDouble)}};
}

void OuterRounds::load_own_state(const StoredTensors& own) {
  const NamedParameters loaded = own_state();
  load_by_name(loaded, with_all_sums(own, loaded), "go on between outer steps");
  if (loaded.empty()) return;
  own_parameters_ = loaded[0].tensor;
  const double* const shares = loaded[1].tensor.const_data_ptr<double>();
  std::copy_n(shares, weights_.size(), weights_.begin());
  std::copy_n(shares + weights_.size(), rank_sums_.size(), rank_sums_.begin());
}

}  // namespace accrue::distributed
