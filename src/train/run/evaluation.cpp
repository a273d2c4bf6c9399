#include "train/run/evaluation.h"

#include <algorithm>
#include <numeric>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "batch/schedule.h"
#include "data/fetch.h"

namespace accrue::train {
namespace {

/// The losses of all micro-batches, each with a denominator of its own.
class Totals {
 public:
  explicit Totals(std::size_t losses) : sums_(losses, 0), weights_(losses, 0) {}

  void add(const models::Evaluated& micro) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] += micro.losses[i].sum.item<double>();
      weights_[i] += micro.losses[i].weight;
    }
    classifies_ = classifies_ || micro.correct.has_value();
    correct_ += micro.correct.value_or(0);
  }

  void add_up(const Ranks& ranks) {
    std::vector<double> all = sums_;
    all.insert(all.end(), weights_.begin(), weights_.end());
    all.insert(all.end(), {correct_, classifies_ ? 1.0 : 0.0});
    all = ranks.add_up(all);
    const std::size_t losses = sums_.size();
    std::copy_n(all.begin(), losses, sums_.begin());
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(losses), losses, weights_.begin());
    correct_ = all[2 * losses];
    classifies_ = all[2 * losses + 1] > 0;
  }

  Evaluation mean(const std::vector<models::LossHead>& heads) const {
    Evaluation result;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (weights_[i] == 0) continue;
      result.loss += heads[i].coefficient * sums_[i] / weights_[i];
      if (result.weight == 0) result.weight = weights_[i];
    }
    if (result.weight == 0) {
      throw usage_error("evaluate", "validation data with labels that count", "none",
                        "other files in data.val");
    }
    if (classifies_) result.accuracy = correct_ / result.weight;
    return result;
  }

 private:
  std::vector<double> sums_, weights_;
  double correct_ = 0;
  bool classifies_ = false;
};

batch::MicroBatch micro_batch_of(const data::Source& source, batch::Range range) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(range.size()));
  std::iota(indices.begin(), indices.end(), range.begin);
  return data::fetch_as(source, indices, indices);
}

}  // namespace

std::optional<Evaluation> evaluate_source(models::Trainable& model, const data::Source& source,
                                          const EvaluationOptions& options) {
  const std::int64_t samples =
      options.max_samples > 0 ? std::min(options.max_samples, source.size()) : source.size();
  const Stopwatch watch;
  const std::vector<models::LossHead> heads = model.losses();
  Totals totals(heads.size());
  std::vector<std::string> unreadable;
  const batch::Range whole{0, samples};
  const batch::Range mine = options.ranks != nullptr ? options.ranks->equal_share(whole) : whole;
  for (const batch::Range range : batch::split(mine, options.micro_batch)) {
    if (options.cancelled && options.cancelled()) return std::nullopt;
    const batch::MicroBatch micro = micro_batch_of(source, range);
    for (const batch::UnreadableSample& sample : micro.unreadable)
      unreadable.push_back(sample.reason);
    totals.add(models::evaluate_losses(model, micro, batch::evaluation_context(micro)));
  }
  if (options.ranks != nullptr) totals.add_up(*options.ranks);
  Evaluation evaluation = totals.mean(heads);
  evaluation.seconds = watch.seconds();
  evaluation.unreadable = std::move(unreadable);
  return evaluation;
}

std::string describe_unreadable(const Evaluation& evaluation) {
  constexpr std::size_t most_told = 10;
  const std::vector<std::string>& reasons = evaluation.unreadable;
  std::string text;
  for (std::size_t i = 0; i < std::min(reasons.size(), most_told); ++i)
    text += (i == 0 ? "" : "; ") + reasons[i];
  if (reasons.size() > most_told)
    text += "; and " + std::to_string(reasons.size() - most_told) + " more";
  return text;
}

}  // namespace accrue::train
