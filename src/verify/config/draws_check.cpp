#include "verify/config/draws_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace accrue::proof {
namespace {

/// Windows that are looked at, and samples of an epoch that are drawn for it.
constexpr std::int64_t most_looked_at = 10'000, most_samples = 1'000'000;
/// Fewer samples may be shuffled alike by chance.
constexpr std::int64_t few_samples = 12;
constexpr std::int64_t ignored = -100;

std::string named(std::int64_t window) { return "window " + std::to_string(window); }

std::vector<std::string> faults_of_windows(const batch::WindowSchedule& schedule) {
  const std::int64_t epoch = schedule.samples_per_epoch;
  if (schedule.variable && epoch > most_samples) return {};  // whose windows take all lengths
  std::int64_t expected = 0, index = 0;
  for (const std::int64_t of_epoch : {0, 1}) {
    const std::int64_t windows = schedule.windows_in_epoch(of_epoch);
    expected = of_epoch * epoch;
    if (index + windows > most_looked_at) break;
    for (std::int64_t i = 0; i < windows; ++i, ++index) {
      const batch::Range range = schedule.window(index);
      if (range.begin != expected)
        return {named(index) + " begins with draw " + std::to_string(range.begin) +
                ", where draw " + std::to_string(expected) + " is next"};
      if (range.size() < 1 || range.end > (of_epoch + 1) * epoch)
        return {named(index) + " takes draws " + std::to_string(range.begin) + " to " +
                std::to_string(range.end) + " of epochs of " + std::to_string(epoch)};
      expected = range.end;
    }
  }
  return {};
}

std::vector<std::int64_t> drawn_in(const batch::Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(sampler.size()));
  std::iota(samples.begin(), samples.end(), epoch * sampler.size());
  std::ranges::transform(samples, samples.begin(),
                         [&](std::int64_t draw) { return sampler.sample(draw); });
  return samples;
}

std::vector<std::string> faults_of_samples(const batch::Sampler& sampler) {
  if (sampler.size() > most_samples) return {};
  const std::vector<std::int64_t> first = drawn_in(sampler, 0);
  std::vector<std::int64_t> sorted = first;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    return {"sample " + std::to_string(*twice) + " is drawn twice in an epoch"};
  if (sampler.order() != batch::Order::shuffle || sampler.size() < few_samples) return {};
  if (first == drawn_in(sampler, 1)) return {"two shuffled epochs have the same order"};
  return {};
}

std::vector<SampleSpan> spans_of(const batch::MicroBatch& micro) {
  std::vector<SampleSpan> spans = micro.spans;
  if (!spans.empty()) return spans;
  for (std::int64_t row = 0; row < micro.inputs.size(0); ++row)
    spans.push_back({.row = row, .end = micro.inputs.size(1)});
  return spans;
}

}  // namespace

std::vector<std::string> faults_of_draws(const train::Workload& work) {
  std::vector<std::string> faults = faults_of_windows(work.schedule);
  std::ranges::move(faults_of_samples(train::make_sampler(work.config, *work.data.train)),
                    std::back_inserter(faults));
  return faults;
}

std::vector<std::string> faults_of_labels(const batch::MicroBatch& micro) {
  for (const SampleSpan& span : spans_of(micro)) {
    const std::int64_t length = span.end - span.begin;
    const auto row = [&](const at::Tensor& of, std::int64_t from) {
      return of.select(0, span.row).narrow(0, span.begin + from, length - 1);
    };
    if (length < 2) continue;
    const at::Tensor labels = row(micro.targets, 0);
    if (labels.ne(ignored).logical_and(labels.ne(row(micro.inputs, 1))).any().item<bool>())
      return {"a label of row " + std::to_string(span.row) + " is not the token that follows"};
  }
  return {};
}

}  // namespace accrue::proof
