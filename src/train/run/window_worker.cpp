#include "train/run/window_worker.h"

#include <utility>

#include "accrue/core/error.h"
#include "core/words.h"
#include "data/section.h"
#include "train/plan/acceleration.h"
#include "train/ranks/single_process.h"
#include "train/run/make_runner.h"
#include "train/run/run_window.h"

namespace accrue::train {
namespace {

Workload open_to_exchange(const Config& config) {
  use_resources(config);
  Workload work = open_workload(config);
  decide_acceleration(work);
  expect_exchangeable_sums(work);
  return work;
}

/// The sums of a window that was closed, in the units that it had when it was.
void take_sums(const accum::GradientBuffer& buffer, WindowSums& sums) {
  for (const accum::GradientBuffer::Entry& entry : buffer.entries()) {
    if (entry.slot->contributions == 0) continue;
    sums.gradients.push_back({entry.name, accum::GradientBuffer::saved_sum(entry)});
    sums.contributions.push_back(entry.slot->contributions);
  }
}

/// One process whose window keeps the units with which it closed: the close plans the next ones.
class UnitsAtClose final : public SingleProcess {
 public:
  void close(accum::Window& window, WindowRun& run) override {
    units_ = window.buffer()->units();
    SingleProcess::close(window, run);
  }
  const std::vector<int>& units() const { return units_; }

 private:
  std::vector<int> units_;
};

}  // namespace

WindowWorker::WindowWorker(const Config& config)
    : work_(open_to_exchange(config)),
      micro_(choose_micro_batch(work_)),
      buffer_(make_gradient_buffer(work_.config, *work_.model)),
      first_units_(buffer_->units()),
      loader_(std::make_unique<data::Loader>(work_.data.train,
                                             make_sampler(work_.config, *work_.data.train))) {}

void WindowWorker::take_place(std::int64_t first, std::int64_t total) {
  if (work_.config.data.order != batch::Order::sequential)
    throw usage_error(
        "data.order of data in sections", "\"sequential\"",
        in_quotes(batch::order_words.of(work_.config.data.order)),
        "order = \"sequential\" in [data], with the lines of the files shuffled once");
  std::shared_ptr<const data::Source> placed = data::section(work_.data.train, first, total);
  batch::Sampler sampler = make_sampler(work_.config, *placed);
  loader_ = std::make_unique<data::Loader>(std::move(placed), std::move(sampler));
}

DataShape WindowWorker::shape() const {
  const ModelConfig& model = work_.config.model;
  return {.vocab = model.vocab.value_or(0), .image = model.image, .classes = model.classes};
}

WindowSums WindowWorker::run(std::int64_t index, std::span<const batch::Range> draws,
                             const std::vector<int>& units) {
  std::vector<batch::Range> micro_batches;
  for (const batch::Range& range : draws) {
    if (range.begin < 0 || range.size() < 1)
      throw usage_error("run a window", "ranges of draws that hold samples",
                        "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")",
                        "(begin, end) with 0 <= begin < end");
    for (const batch::Range& micro : batch::split(range, micro_.samples))
      micro_batches.push_back(micro);
  }
  buffer_->set_units(units.empty() ? first_units_ : units);
  RunLog log;
  RunControl control;
  memory::Retries retries;
  UnitsAtClose alone;
  accum::Window window(buffer_);
  const std::unique_ptr<Runner> runner = make_runner(
      work_.config, {*work_.model, window, *loader_, work_.config.run.seed, log, control, retries},
      {.recompute = micro_.recompute});
  const WindowRun run =
      train::run_window({window, *runner, alone, retries, log},
                        {.index = index, .micro_batches = std::move(micro_batches)});
  if (!run.lost_reason.empty())
    throw runtime_error("run window " + std::to_string(index), "sums of its micro-batches",
                        run.lost_reason, "the parameters that the window is to be run with");
  WindowSums sums{.loss_sum = run.loss_sum,
                  .weight = run.weight,
                  .tokens = run.tokens,
                  .micro_batches = run.micro_batches,
                  .quarantined = run.quarantined,
                  .gradients = {},
                  .contributions = {},
                  .units = alone.units()};
  if (run.gradient) take_sums(*buffer_, sums);
  return sums;
}

}  // namespace accrue::train
