#include "accum/accumulator_ranks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "accrue/core/error.h"
#include "accum/batch_size.h"
#include "accum/single_thread_guard.h"

namespace accrue {
namespace {

/// The numbers that ranks exchange about a window, in this order.
enum Figure {
  kUnits,
  kSamples,
  kFinishing,
  kParameters,
  kMagnitude,
  kParts,
  kPartSquares,
  kPartInverseWeights,
  kFigures
};

/// A sum over some values of each parameter, and of their magnitudes: equal on ranks that take the
/// same steps.
struct Fingerprint {
  double sum = 0, magnitude = 0;
};

Fingerprint fingerprint_of(const accum::GradientBuffer& buffer) {
  constexpr std::int64_t kValues = 16;
  Fingerprint print;
  for (const auto& entry : buffer.entries()) {
    const at::Tensor flat = entry.parameter.detach().reshape({-1});
    const std::int64_t stride = std::max<std::int64_t>(1, flat.numel() / kValues);
    const at::Tensor some = flat.slice(0, 0, flat.numel(), stride).to(at::kCPU, at::kDouble);
    const at::Tensor values = some.contiguous();
    const double* value = values.const_data_ptr<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      print.sum += value[i];
      print.magnitude += std::abs(value[i]);
    }
  }
  return print;
}

/// Machines of two kinds may round a step differently, by far less than this.
constexpr double kAlike = 1e-4;

bool are_alike(const Fingerprint& a, const Fingerprint& b) {
  if (!std::isfinite(a.magnitude) || !std::isfinite(b.magnitude))
    return std::isfinite(a.magnitude) == std::isfinite(b.magnitude);
  return std::abs(a.sum - b.sum) <= kAlike * std::max(a.magnitude, b.magnitude);
}

void require_alike(const std::vector<accum::SharedSums::Figures>& by_rank) {
  const auto print_of = [&](std::size_t rank) {
    return Fingerprint{by_rank[rank][kParameters], by_rank[rank][kMagnitude]};
  };
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    if (are_alike(print_of(rank), print_of(0))) continue;
    throw usage_error("step over ranks", "the same parameters on all of them",
                      "others on rank " + std::to_string(rank) + " than on rank 0",
                      "one seed or one checkpoint for all ranks, and the same optimizer and "
                      "learning rate in every step");
  }
}

}  // namespace

Accumulator::Ranks::Ranks(Accumulator& own, accum::RankGroup& group)
    : own_(own), sums_(group.share_sums(own.window_.buffer(), own.options_.sharing)) {
  sums_->set_figures([this] { return figures(); },
                     [this](const auto& by_rank) { take_figures(by_rank); });
  sums_->set_loss_sums([this] { return loss_weights(); },
                       [this](const auto& sums) { return take_loss_weights(sums); });
  own_.window_.set_reduction(sums_.get());
}

void Accumulator::Ranks::begin_window() {
  samples_ = 0;
  is_complete_ = false;
}

void Accumulator::Ranks::require_room() const {
  if (!is_complete_ || !own_.pending() || !own_.options_.sharing.overlap) return;
  throw usage_error("backward", "step() after the last micro-batch of this rank's window",
                    "another micro-batch, when the sums of all ranks may be under way",
                    "step() where full() is true, or SharingOptions::overlap = false");
}

void Accumulator::Ranks::committed(double samples, bool is_last) {
  samples_ += samples;
  is_complete_ = is_last;
}

Accumulator::Ranks::Figures Accumulator::Ranks::figures() const {
  const Fingerprint print = fingerprint_of(*own_.window_.buffer());
  Figures mine(kFigures);
  mine[kUnits] = own_.counters_.window_units;
  mine[kSamples] = samples_;
  mine[kFinishing] = is_finishing_ ? 1 : 0;
  mine[kParameters] = print.sum;
  mine[kMagnitude] = print.magnitude;
  if (const auto& part = own_.counters_.noise_part) {
    mine[kParts] = 1;
    mine[kPartSquares] = part->part_squared_norm;
    mine[kPartInverseWeights] = part->part_inverse_weight;
  }
  return mine;
}

void Accumulator::Ranks::take_figures(const std::vector<Figures>& by_rank) {
  require_alike(by_rank);
  rank_totals_ = {};
  double finishing = 0;
  for (const Figures& figures : by_rank) {
    rank_totals_.units += figures[kUnits];
    rank_totals_.samples.push_back(std::llround(figures[kSamples]));
    finishing += figures[kFinishing];
    rank_totals_.parts += figures[kParts];
    rank_totals_.part_sums.part_squared_norm += figures[kPartSquares];
    rank_totals_.part_sums.part_inverse_weight += figures[kPartInverseWeights];
  }
  rank_totals_.all_finish = finishing == static_cast<double>(by_rank.size());
}

/// By loss: the weights of committed micro-batches, and then those of quarantined ones.
Accumulator::Ranks::Figures Accumulator::Ranks::loss_weights() const {
  if (!own_.counters_.losses) return {};
  Figures mine = own_.loss_weights(MicroStatus::committed);
  const Figures quarantined = own_.loss_weights(MicroStatus::quarantined);
  mine.insert(mine.end(), quarantined.begin(), quarantined.end());
  return mine;
}

/// Returns whether the losses' factors changed because a rank quarantined a micro-batch.
bool Accumulator::Ranks::take_loss_weights(const std::vector<double>& sums) {
  if (!own_.counters_.losses) return false;
  const auto quarantined = sums.begin() + std::ssize(left_out_);
  std::vector<double> more(quarantined, sums.end());
  std::ranges::transform(more, left_out_, more.begin(), std::minus<>());
  left_out_.assign(quarantined, sums.end());
  if (own_.counters_.losses->quarantine(more)) return true;
  own_.require_totals({sums.begin(), quarantined});
  return false;
}

LossTotals Accumulator::Ranks::expect(const LossTotals& mine) {
  const auto world = static_cast<double>(place().world);
  const auto require_same = [&](double sum, double own, const char* what) {
    if (std::abs(sum - world * own) <= kAlike * std::abs(own)) return;
    throw usage_error("expect", std::string("the same ") + what + " on all ranks",
                      std::to_string(own) + " here, " + std::to_string(sum / world) + " on average",
                      "calling expect() alike on all ranks, each with its own total weights");
  };
  const auto losses = static_cast<double>(mine.size());
  require_same(sums_->add_up({losses}, "the number of losses").front(), losses, "losses");
  const std::vector<double> coefficients =
      sums_->add_up(mine.coefficients(), "the coefficients of losses");
  for (std::size_t i = 0; i < mine.size(); ++i)
    require_same(coefficients[i], mine.coefficients()[i], "coefficients");
  left_out_.assign(mine.size(), 0);
  return {sums_->add_up(mine.totals(), "the total weights of losses"), mine.coefficients()};
}

void Accumulator::Ranks::report(StepReport& report) const {
  report.world = place().world;
  report.reduce_seconds = totals().reduce_seconds;
  report.reduce_exposed_seconds = totals().exposed_seconds;
  report.wire_bytes = totals().wire_bytes;
  const bool in_samples = std::ranges::any_of(rank_totals_.samples, [](auto n) { return n > 0; });
  if (in_samples) report.rank_samples = rank_totals_.samples;
}

std::optional<adapt::NoiseSample> Accumulator::Ranks::noise_part() const {
  if (rank_totals_.parts == 0) return std::nullopt;
  adapt::NoiseSample mean = rank_totals_.part_sums;
  mean.part_squared_norm /= rank_totals_.parts;
  mean.part_inverse_weight /= rank_totals_.parts;
  return mean;
}

StepReport Accumulator::Ranks::finish(const StepFunction& take_step) {
  StepReport last = own_.blank_report();
  is_finishing_ = true;
  do {
    const StepReport report = own_.close(take_step);
    if (report.stepped || !last.stepped) last = report;
  } while (!rank_totals_.all_finish);
  is_finishing_ = false;
  return last;
}

/// Call when an exception leaves a call that the other ranks also make.
void Accumulator::report_to_ranks(const char* reason) noexcept {
  if (ranks_) ranks_->fail(reason);
}

accum::WindowShare Accumulator::share(BatchSize size) {
  const accum::SingleThreadGuard::Call call(*thread_, "share");
  if (window_.is_open())
    throw usage_error("share", "no open window", "one with micro-batches pending",
                      "calling it before the window's first backward()");
  const BatchSize& whole = is_stated(size) ? size : options_.batch;
  if (!is_stated(whole))
    throw usage_error("share", "the size of the window", "none",
                      "share(Samples{256}), or AccumulatorOptions::batch");
  if (!is_batch(count_of(whole)))
    throw usage_error("share", "a window of at least 1 and at most 2^53",
                      std::to_string(count_of(whole)), "share(Samples{256})");
  share_ = ranks_ ? ranks_->share(count_of(whole)) : accum::WindowShare{0, count_of(whole)};
  return *share_;
}

/// This rank's part of the window, in the unit of the batch; nothing if it is not stated.
std::optional<std::int64_t> Accumulator::own_batch() const {
  if (share_) return share_->size();
  if (!is_stated(options_.batch)) return std::nullopt;
  const std::int64_t batch = count_of(options_.batch);
  const auto [rank, world] = ranks_ ? ranks_->place() : RankSlice{};
  return batch / world + (rank < batch % world ? 1 : 0);
}

/// Whether a micro-batch of `units` is this rank's last in the window.
bool Accumulator::would_fill(double units) const {
  if (options_.micro_batches > 0) return micro_batches_in() + 1 >= options_.micro_batches;
  const std::optional<std::int64_t> own = own_batch();
  return own && counters_.window_units + units >= static_cast<double>(*own);
}

}  // namespace accrue
