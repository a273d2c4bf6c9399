#include "verify/config/draws_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace accrue::proof {
namespace {

/// Windows that are checked, and samples of an epoch that are drawn for it.
constexpr std::int64_t most_looked_at = 10'000, most_samples = 1'000'000;
/// Fewer samples may be shuffled identically by chance.
constexpr std::int64_t few_samples = 12;
constexpr std::int64_t ignored = -100;

std::string named(std::int64_t window) { return "window " + std::to_string(window); }

/// The windows of two epochs that are checked.
std::int64_t windows_looked_at(const batch::WindowSchedule& schedule) {
  return std::min(schedule.windows_in_epoch(0) + schedule.windows_in_epoch(1), most_looked_at);
}

std::string fault_of_window(const batch::WindowSchedule& schedule, std::int64_t index,
                            std::int64_t expected, std::int64_t end_of_epoch) {
  const batch::Range range = schedule.window(index);
  if (range.begin != expected)
    return named(index) + " begins with draw " + std::to_string(range.begin) + ", where draw " +
           std::to_string(expected) + " is next";
  if (range.size() >= 1 && range.end <= end_of_epoch) return "";
  return named(index) + " takes draws " + std::to_string(range.begin) + " to " +
         std::to_string(range.end) + " of epochs of " + std::to_string(schedule.samples_per_epoch);
}

void check_windows(const batch::WindowSchedule& schedule, DataCheck& check) {
  const std::int64_t epoch = schedule.samples_per_epoch;
  if (schedule.variable && epoch > most_samples) {  // its windows take all lengths
    check.left_out.push_back("which draws windows take: an epoch has " + std::to_string(epoch) +
                             " samples of lengths that would all have to be read");
    return;
  }
  const std::int64_t of_first = schedule.windows_in_epoch(0), count = windows_looked_at(schedule);
  std::int64_t expected = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    if (index == of_first) expected = epoch;
    const std::string fault =
        fault_of_window(schedule, index, expected, index < of_first ? epoch : 2 * epoch);
    if (!fault.empty()) {
      check.faults.push_back(fault);
      return;
    }
    expected = schedule.window(index).end;
  }
}

std::vector<std::int64_t> drawn_in(const batch::Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> samples(
      static_cast<std::size_t>(std::min(sampler.size(), most_samples)));
  std::iota(samples.begin(), samples.end(), epoch * sampler.size());
  std::ranges::transform(samples, samples.begin(),
                         [&](std::int64_t draw) { return sampler.sample(draw); });
  return samples;
}

/// How often the first `draws` may take a sample: once, or in a mixture as often as its part is
/// traversed.
std::int64_t most_times(const train::Workload& work, const batch::Sampler& sampler,
                        std::int64_t sample, std::int64_t draws) {
  const std::vector<data::MixturePart> parts = work.data.train->parts();
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::int64_t size = parts[part].source->size();
    if (sample < size) return (sampler.draws_of(part, draws) + size - 1) / size;
    sample -= size;
  }
  return 1;
}

/// A sample that is drawn too often, among draws in sorted order.
std::optional<std::int64_t> drawn_too_often(const train::Workload& work,
                                            const batch::Sampler& sampler,
                                            const std::vector<std::int64_t>& sorted) {
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::upper_bound(begin, sorted.end(), *begin);
    if (end - begin > 1 && end - begin > most_times(work, sampler, *begin, std::ssize(sorted)))
      return *begin;
    begin = end;
  }
  return std::nullopt;
}

void check_samples(const train::Workload& work, const batch::Sampler& sampler, DataCheck& check) {
  if (sampler.size() > most_samples)
    check.left_out.push_back("draws of an epoch after the first " + std::to_string(most_samples) +
                             " of " + std::to_string(sampler.size()));
  const std::vector<std::int64_t> first = drawn_in(sampler, 0);
  std::vector<std::int64_t> sorted = first;
  std::ranges::sort(sorted);
  if (const auto sample = drawn_too_often(work, sampler, sorted))
    check.faults.push_back("sample " + std::to_string(*sample) +
                           (work.data.train->parts().empty()
                                ? " is drawn twice in an epoch"
                                : " is drawn again before all of its source were"));
  else if (sampler.order() == batch::Order::shuffle && sampler.size() >= few_samples &&
           first == drawn_in(sampler, 1))
    check.faults.emplace_back("two shuffled epochs have the same order");
}

/// The tokens before some were masked.
at::Tensor tokens_of(const batch::MicroBatch& micro) {
  return at::where(micro.targets.eq(ignored), micro.inputs, micro.targets);
}

std::vector<SampleSpan> spans_of(const batch::MicroBatch& micro) {
  std::vector<SampleSpan> spans = micro.spans;
  if (!spans.empty()) return spans;
  for (std::int64_t row = 0; row < micro.inputs.size(0); ++row)
    spans.push_back({.row = row, .end = micro.inputs.size(1)});
  return spans;
}

}  // namespace

DataCheck check_draws(const train::Workload& work) {
  DataCheck check;
  check_windows(work.schedule, check);
  check_samples(work, train::make_sampler(work.config, *work.data.train), check);
  return check;
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

std::vector<std::string> faults_of_hidden_tokens(const batch::MicroBatch& one,
                                                 const batch::MicroBatch& other) {
  if (at::equal(tokens_of(one), tokens_of(other))) return {};
  return {"a label is not the token that was hidden"};
}

}  // namespace accrue::proof
