#include "train/run/evaluation.h"

#include <algorithm>
#include <numeric>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "batch/schedule.h"
#include "data/fetch.h"
#include "train/pass/head_sums.h"
#include "train/window/layered/layered_evaluation.h"

namespace accrue::train {
namespace {

/// The losses of all micro-batches, each with its own denominator.
class Totals {
 public:
  explicit Totals(const std::vector<models::LossHead>& heads) : heads_(heads) {
    std::size_t measures = 0;
    for (const models::LossHead& head : heads) measures += head.measures.size();
    sums_ = {.sums = std::vector<double>(heads.size(), 0),
             .weights = std::vector<double>(heads.size(), 0),
             .measures = std::vector<double>(measures, 0)};
  }

  void add(const models::Evaluated& micro) {
    HeadSums sums;
    for (const Loss& loss : micro.losses) {
      sums.sums.push_back(loss.sum.item<double>());
      sums.weights.push_back(loss.weight);
      sums.measures.insert(sums.measures.end(), loss.measures.begin(), loss.measures.end());
    }
    sums_ += sums;
    classifies_ = classifies_ || micro.correct.has_value();
    correct_ += micro.correct.value_or(0);
  }

  /// Returns whether one of the ranks was `cancelled`.
  bool add_up(const Ranks& ranks, bool cancelled) {
    std::vector<double> all{correct_, classifies_ ? 1.0 : 0.0, cancelled ? 1.0 : 0.0};
    for (const auto* part : {&sums_.sums, &sums_.weights, &sums_.measures})
      all.insert(all.end(), part->begin(), part->end());
    all = ranks.add_up(all, "the evaluation");
    correct_ = all[0];
    classifies_ = all[1] > 0;
    auto next = all.begin() + 3;
    for (auto* part : {&sums_.sums, &sums_.weights, &sums_.measures}) {
      std::copy_n(next, part->size(), part->begin());
      next += std::ssize(*part);
    }
    return all[2] > 0;
  }

  Evaluation mean() const {
    Evaluation result;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      if (sums_.weights[i] == 0) continue;
      result.loss += heads_[i].coefficient * sums_.sums[i] / sums_.weights[i];
      if (result.weight == 0) result.weight = sums_.weights[i];
    }
    if (result.weight == 0) {
      throw usage_error("evaluate", "validation data with labels that count", "none",
                        "other files in data.val");
    }
    if (classifies_) result.accuracy = correct_ / result.weight;
    result.losses = means_of(heads_, sums_);
    return result;
  }

 private:
  const std::vector<models::LossHead>& heads_;
  HeadSums sums_;
  double correct_ = 0;
  bool classifies_ = false;
};

batch::MicroBatch micro_batch_of(const data::Source& source, batch::Range range) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(range.size()));
  std::iota(indices.begin(), indices.end(), range.begin);
  return data::fetch_as(source, indices, indices);
}

/// Empty if this rank has all parameters.
std::function<void(std::size_t)> bring_segments(std::size_t segments,
                                                distributed::ParameterShards* shards) {
  if (shards == nullptr) return {};
  return [shards, segments](std::size_t segment) {
    shards->enter(segment, /*backward=*/false,
                  segment + 1 < segments ? std::optional(segment + 1) : std::nullopt);
  };
}

/// The samples of this rank by groups that pass through the model together; as many groups on each
/// rank if they bring it together.
std::vector<batch::Range> groups_of(batch::Range mine, const EvaluationOptions& options) {
  // Groups end where micro-batches do, so that the sums do not depend on them.
  const std::int64_t micro_batches =
      std::max<std::int64_t>(1, options.samples_together / options.micro_batch);
  std::vector<batch::Range> groups = batch::split(mine, micro_batches * options.micro_batch);
  if (options.shards != nullptr) {
    const std::vector<std::int64_t> counts = options.ranks->gather_numbers(std::ssize(groups));
    groups.resize(static_cast<std::size_t>(std::ranges::max(counts)), {mine.end, mine.end});
  }
  return groups;
}

}  // namespace

std::optional<Evaluation> evaluate_source(models::Trainable& model, const data::Source& source,
                                          const EvaluationOptions& options) {
  const std::int64_t samples =
      options.max_samples > 0 ? std::min(options.max_samples, source.size()) : source.size();
  const Stopwatch watch;
  const std::vector<models::LossHead> heads = model.losses();
  Totals totals(heads);
  std::vector<std::string> unreadable;
  const batch::Range whole{0, samples};
  const batch::Range mine = options.ranks != nullptr ? options.ranks->equal_share(whole) : whole;
  ActivationStore store(options.cut_folder);
  const LayeredEvaluation by_segments{
      .before_segment = bring_segments(model.segments().size(), options.shards),
      .cancelled = options.cancelled};
  bool cancelled = false;
  for (const batch::Range group : groups_of(mine, options)) {
    cancelled = cancelled || (options.cancelled && options.cancelled());
    if (cancelled && options.shards == nullptr) break;
    // The other ranks need this one to bring their segments together, also if it has no samples.
    std::vector<batch::MicroBatch> micro_batches;
    for (const batch::Range range : batch::split(group, options.micro_batch)) {
      if (cancelled) break;
      micro_batches.push_back(micro_batch_of(source, range));
      for (const batch::UnreadableSample& sample : micro_batches.back().unreadable)
        unreadable.push_back(sample.reason);
    }
    const auto evaluated = evaluate_by_segments(model, micro_batches, store, by_segments);
    cancelled = cancelled || !evaluated;
    if (cancelled) continue;
    for (const models::Evaluated& micro : *evaluated) totals.add(micro);
  }
  if (options.shards != nullptr) options.shards->keep_own();
  if (options.ranks != nullptr) cancelled = totals.add_up(*options.ranks, cancelled);
  if (cancelled) return std::nullopt;
  Evaluation evaluation = totals.mean();
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
