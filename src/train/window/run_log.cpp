#include "train/window/run_log.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

namespace accrue::train {
namespace {

std::string first_of(std::span<const std::int64_t> samples) {
  constexpr std::size_t most = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, samples.size()); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(samples[i]);
  return samples.size() > most ? text + ", ..." : text;
}

}  // namespace

void RunLog::each(const std::function<void(Observer&)>& notify) const {
  if (observers_ == nullptr) return;
  RECORD_USER_SCOPE("log");
  for (const std::shared_ptr<Observer>& observer : *observers_) notify(*observer);
}

void RunLog::start(const RunStart& start) const {
  each([&](Observer& o) { o.on_start(start); });
}

void RunLog::micro_batch(std::int64_t done, std::int64_t total) const {
  each([&](Observer& o) { o.on_micro_batch(done, total); });
}

void RunLog::step(const StepReport& report) {
  each([&](Observer& o) { o.on_step(report); });
  if (!is_first_rank_) unreported_step_ = report;
}

void RunLog::evaluation(const Evaluation& evaluation) const {
  each([&](Observer& o) { o.on_evaluation(evaluation); });
}

void RunLog::histograms(const StepHistograms& histograms) const {
  each([&](Observer& o) { o.on_histograms(histograms); });
}

void RunLog::rollback() const {
  each([&](Observer& o) { o.on_rollback(steps_done()); });
}

void RunLog::end(bool interrupted) const {
  each([&](Observer& o) { o.on_end({.step = steps_done(), .interrupted = interrupted}); });
}

void RunLog::failed() const {
  each([&](Observer& o) { o.on_end({.step = steps_done(), .failed = true}); });
}

void RunLog::event(const std::string& name, const std::string& reason) const {
  each(
      [&](Observer& o) { o.on_event({.name = name, .reason = reason, .step = steps_done() + 1}); });
}

void RunLog::event_of_last_step(const std::string& name, const std::string& reason) const {
  each([&](Observer& o) { o.on_event({.name = name, .reason = reason, .step = steps_done()}); });
}

void RunLog::event_of_this_rank(const std::string& name, const std::string& reason) {
  event_of_this_rank({.name = name, .reason = reason, .step = steps_done() + 1});
}

void RunLog::event_of_this_rank(Event event) {
  if (is_first_rank_) return tell({&event, 1});
  noted_.push_back(std::move(event));
}

void RunLog::quarantine(const MicroRef& micro, const std::string& reason,
                        std::span<const std::int64_t> samples) {
  event_of_this_rank("quarantine", describe(micro) + " was left out: " + reason +
                                       "; in the data: samples " + first_of(samples));
}

std::vector<Event> RunLog::take_noted() { return std::exchange(noted_, {}); }

void RunLog::tell(std::span<const Event> events) const {
  each([&](Observer& o) {
    for (const Event& event : events) o.on_event(event);
  });
}

}  // namespace accrue::train
