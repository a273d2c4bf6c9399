#include "train/window/layered/layered_window.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"
#include "train/pass/buffer_snapshot.h"
#include "train/window/layered/layered_pass.h"

namespace accrue::train {

struct LayeredWindow::Impl {
  models::Trainable& model;
  accum::Window& window;
  Fetch fetch;
  std::uint64_t seed;
  LayeredOptions options;
  ActivationStore store;
  std::vector<LayeredMicroBatch>
      micro_batches;       ///< the last run's, without empty and quarantined ones
  BufferSnapshot at_open;  ///< the model's buffers when the last run began
  bool audit = false;
  bool running_updated = false;  ///< by the statistics of the last run's window

  void load(std::int64_t index, std::span<const batch::Range> ranges, LayeredRun& result) {
    micro_batches.clear();
    for (const batch::Range& range : ranges) {
      LayeredMicroBatch one;
      one.micro = fetch(range);
      one.ref = {.index = result.micro_batches++, .sample_ids = one.micro.sample_ids};
      std::ranges::move(std::exchange(one.micro.unreadable, {}),
                        std::back_inserter(result.unreadable));
      if (one.micro.is_empty()) continue;
      one.context = batch::training_context(one.micro, seed, index);
      one.inputs = store.keep(one.micro.inputs);
      one.micro.inputs.reset();
      result.tokens += one.micro.tokens;
      micro_batches.push_back(std::move(one));
    }
  }

  LayeredPass pass(const LayeredOptions& of_pass) {
    return {model, *window.buffer(), window.loss_scale(), of_pass, micro_batches, store, audit};
  }

  MicroRef whole_window() const {
    MicroRef ref;
    for (const LayeredMicroBatch& one : micro_batches)
      ref.sample_ids.insert(ref.sample_ids.end(), one.ref.sample_ids.begin(),
                            one.ref.sample_ids.end());
    return ref;
  }

  /// Runs backward in one transaction of the window.
  LayeredPass::Outcome backward(LayeredPass& attempt) {
    window.begin(whole_window());
    const LayeredPass::Outcome outcome = run_backward(attempt);
    if (outcome == LayeredPass::Outcome::non_finite)
      window.abort(MicroStatus::lost, "an attempt with a micro-batch that is not finite");
    if (outcome == LayeredPass::Outcome::too_large) {
      window.buffer()->enlarge_units();
      window.abort(MicroStatus::lost, "an attempt with units that were too small on a rank");
    }
    if (outcome == LayeredPass::Outcome::done &&
        window.commit(attempt.loss_sum(), attempt.weight()) == MicroStatus::committed) {
      attempt.update_running_statistics();
      running_updated = true;
    }
    return outcome;
  }

  LayeredPass::Outcome run_backward(LayeredPass& attempt) {
    try {
      return attempt.backward();
    } catch (const std::exception& error) {
      window.abort(MicroStatus::lost, error.what());
      throw;
    }
  }

  void quarantine(const std::vector<NonFiniteMicroBatch>& non_finite, LayeredRun& result) {
    std::vector<LayeredMicroBatch> others;
    std::size_t next = 0;
    for (std::size_t i = 0; i < micro_batches.size(); ++i) {
      if (next == non_finite.size() || non_finite[next].place != i) {
        others.push_back(std::move(micro_batches[i]));
        continue;
      }
      window.begin(micro_batches[i].ref);
      window.abort(MicroStatus::quarantined, non_finite[next].reason);
      result.quarantined.push_back(micro_batches[i].ref.index);
      if (options.on_quarantine)
        options.on_quarantine(micro_batches[i].ref, non_finite[next].reason);
      while (next < non_finite.size() && non_finite[next].place == i) ++next;
    }
    micro_batches = std::move(others);
  }
};

LayeredWindow::LayeredWindow(models::Trainable& model, accum::Window& window, Fetch fetch,
                             std::uint64_t seed, LayeredOptions options)
    : impl_(std::make_unique<Impl>(Impl{model,
                                        window,
                                        std::move(fetch),
                                        seed,
                                        options,
                                        ActivationStore(options.cut_folder),
                                        {},
                                        BufferSnapshot(model)})) {
  if (options.window_statistics) models::check_batch_norms(model, models::BatchNormPolicy::exact);
}

LayeredWindow::~LayeredWindow() = default;

LayeredRun LayeredWindow::run(std::int64_t index, std::span<const batch::Range> ranges) {
  LayeredRun result;
  impl_->at_open.keep();
  impl_->load(index, ranges, result);
  impl_->audit = impl_->running_updated = false;
  while (!impl_->micro_batches.empty() || impl_->options.all_reduce) {
    LayeredPass attempt = impl_->pass(impl_->options);
    LayeredPass::Outcome outcome = attempt.forward();
    if (outcome == LayeredPass::Outcome::done) outcome = impl_->backward(attempt);
    switch (outcome) {
      case LayeredPass::Outcome::interrupted:
        impl_->window.discard();
        result.interrupted = true;
        return result;
      case LayeredPass::Outcome::non_finite:
        impl_->audit = impl_->audit || attempt.non_finite().empty();
        impl_->quarantine(attempt.non_finite(), result);
        restore_buffers();
        break;
      case LayeredPass::Outcome::too_large:
        restore_buffers();
        break;
      case LayeredPass::Outcome::done:
        result.loss_sum = attempt.loss_sum();
        result.weight = attempt.weight();
        result.heads = attempt.heads();
        return result;
    }
  }
  return result;
}

/// A replay is not interrupted: the window around it could not go on.
Loss LayeredWindow::replay() {
  LayeredOptions options = impl_->options;
  options.interrupted = {};
  restore_buffers();
  LayeredPass again = impl_->pass(options);
  if (again.forward() != LayeredPass::Outcome::done ||
      again.backward() != LayeredPass::Outcome::done)
    throw runtime_error(
        "replay a window segment by segment", "what it was the first time", "something not finite",
        "a model whose passes depend on the samples, the seed and the window alone");
  if (impl_->running_updated) again.update_running_statistics();
  return {at::scalar_tensor(again.loss_sum(), at::kDouble), again.weight()};
}

void LayeredWindow::restore_buffers() const { impl_->at_open.restore(); }

}  // namespace accrue::train
