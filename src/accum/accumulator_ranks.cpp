#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"
#include "accum/batch_size.h"

namespace accrue {
namespace {

/// What ranks tell each other of a window, in this order; the weights of each loss follow that were
/// committed, and then those that were quarantined.
enum Figure { kUnits, kSamples, kFinishing, kParameters, kMagnitude, kFigures };

/// A sum over some values of each parameter, and of their magnitudes: ranks that take the same
/// steps have the same.
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

/// Machines of two kinds may round a step differently, which is far below this.
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

/// To be called where an exception leaves a call that the other ranks make, too.
void Accumulator::tell_ranks(const char* reason) noexcept {
  if (sums_) sums_->fail(reason);
}

void Accumulator::share_with(accum::RankGroup& group) {
  sums_ = group.share_sums(window_.buffer(), options_.sharing);
  sums_->set_figures(
      [this] { return figures(); },
      [this](const auto& by_rank, bool is_whole) { return take_figures(by_rank, is_whole); });
  window_.set_reduction(sums_.get());
}

accum::WindowShare Accumulator::share(BatchSize size) {
  if (window_.is_open())
    throw usage_error("share", "no open window", "one with micro-batches pending",
                      "calling it before the window's first backward()");
  const BatchSize& whole = is_stated(size) ? size : options_.batch;
  if (!is_stated(whole))
    throw usage_error("share", "the size of the window", "none",
                      "share(Samples{256}), or AccumulatorOptions::batch");
  share_ = sums_ ? sums_->share(count_of(whole)) : accum::WindowShare{0, count_of(whole)};
  return *share_;
}

std::optional<std::int64_t> Accumulator::own_batch() const {
  if (share_) return share_->size();
  if (!is_stated(options_.batch)) return std::nullopt;
  const std::int64_t batch = count_of(options_.batch);
  if (!sums_) return batch;
  const auto [rank, world] = sums_->place();
  return batch / world + (rank < batch % world ? 1 : 0);
}

/// To be called before each backward of a micro-batch of `units`. Returns whether it is the last of
/// this rank's window.
bool Accumulator::begin_on_ranks(double units, bool is_announced) {
  if (!sums_) return false;
  const std::int64_t committed = window_.ledger().count(MicroStatus::committed);
  const std::optional<std::int64_t> own = own_batch();
  const bool fills = options_.micro_batches > 0
                         ? committed + 1 >= options_.micro_batches
                         : own && counters_.window_units + units >= static_cast<double>(*own);
  sums_->begin_micro_batch(is_announced || fills);
  return is_announced || fills;
}

void Accumulator::require_room() const {
  if (!sums_ || !is_complete_ || !options_.sharing.overlap) return;
  throw usage_error("backward", "step() after the last micro-batch of this rank's window",
                    "another micro-batch, when the sums of all ranks may be under way",
                    "step() where full() is true, or SharingOptions::overlap = false");
}

accum::SharedSums::Figures Accumulator::figures() const {
  const Fingerprint print = fingerprint_of(*window_.buffer());
  accum::SharedSums::Figures mine(kFigures);
  mine[kUnits] = counters_.window_units;
  mine[kSamples] = window_samples_;
  mine[kFinishing] = is_finishing_ ? 1 : 0;
  mine[kParameters] = print.sum;
  mine[kMagnitude] = print.magnitude;
  if (!counters_.losses) return mine;
  for (const MicroStatus status : {MicroStatus::committed, MicroStatus::quarantined}) {
    const std::vector<double> weights = loss_weights(status);
    mine.insert(mine.end(), weights.begin(), weights.end());
  }
  return mine;
}

/// Returns whether the factors of several losses changed with what any rank quarantined.
bool Accumulator::take_figures(const std::vector<accum::SharedSums::Figures>& by_rank,
                               bool is_whole) {
  require_alike(by_rank);
  together_ = {};
  accum::SharedSums::Figures sums(by_rank.front().size(), 0);
  for (const auto& figures : by_rank) {
    std::ranges::transform(sums, figures, sums.begin(), std::plus<>());
    together_.samples.push_back(std::llround(figures[kSamples]));
  }
  together_.units = sums[kUnits];
  together_.all_finish = sums[kFinishing] == static_cast<double>(by_rank.size());
  if (!counters_.losses || !is_whole) return false;
  const auto losses = static_cast<std::ptrdiff_t>(counters_.losses->size());
  const auto committed = sums.begin() + kFigures, quarantined = committed + losses;
  std::vector<double> left_out(quarantined, quarantined + losses);
  std::ranges::transform(left_out, left_out_, left_out.begin(), std::minus<>());
  left_out_.assign(quarantined, quarantined + losses);
  if (counters_.losses->quarantine(left_out)) return true;
  require_totals({committed, quarantined});
  return false;
}

/// Adds up what each rank expects.
LossTotals Accumulator::added_up(const LossTotals& mine) {
  const auto world = static_cast<double>(sums_->place().world);
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
  return {sums_->add_up(mine.totals(), "the total weights of losses"), mine.coefficients()};
}

void Accumulator::report_ranks(StepReport& report) const {
  const accum::WindowTotals& totals = sums_->totals();
  report.world = sums_->place().world;
  report.reduce_seconds = totals.reduce_seconds;
  report.reduce_exposed_seconds = totals.exposed_seconds;
  report.wire_bytes = totals.wire_bytes;
  const bool in_samples = std::ranges::any_of(together_.samples, [](auto n) { return n > 0; });
  if (in_samples) report.rank_samples = together_.samples;
}

/// Joins the windows of the others until no rank has micro-batches left.
StepReport Accumulator::finish_on_ranks(const StepFunction& take_step) {
  StepReport last = blank_report();
  is_finishing_ = true;
  do {
    const StepReport report = close(take_step);
    if (report.stepped || !last.stepped) last = report;
  } while (!together_.all_finish);
  is_finishing_ = false;
  return last;
}

}  // namespace accrue
