#include <algorithm>
#include <iterator>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"
#include "train/window/exact/exact_pass.h"

namespace accrue::train {

struct ExactWindow::Impl {
  models::Trainable& model;
  accum::Window& window;
  Fetch fetch;
  std::uint64_t seed;
  ExactOptions options;
  ActivationStore store;
  std::vector<ExactMicroBatch>
      micro_batches;  ///< the last run's, without empty and quarantined ones
  bool audit = false;

  void load(std::int64_t index, std::span<const batch::Range> ranges, ExactRun& result) {
    micro_batches.clear();
    for (const batch::Range& range : ranges) {
      ExactMicroBatch one;
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

  ExactPass pass() {
    return {model, *window.buffer(), window.loss_scale(), options, micro_batches, store, audit};
  }

  MicroRef whole_window() const {
    MicroRef ref;
    for (const ExactMicroBatch& one : micro_batches)
      ref.sample_ids.insert(ref.sample_ids.end(), one.ref.sample_ids.begin(),
                            one.ref.sample_ids.end());
    return ref;
  }

  /// Runs backward in one transaction of the window.
  ExactPass::Outcome backward(ExactPass& attempt) {
    window.begin(whole_window());
    const ExactPass::Outcome outcome = run_backward(attempt);
    if (outcome == ExactPass::Outcome::non_finite)
      window.abort(MicroStatus::lost, "an attempt with a micro-batch that is not finite");
    if (outcome == ExactPass::Outcome::done &&
        window.commit(attempt.loss_sum(), attempt.weight()) == MicroStatus::committed)
      attempt.update_running_statistics();
    return outcome;
  }

  ExactPass::Outcome run_backward(ExactPass& attempt) {
    try {
      return attempt.backward();
    } catch (const std::exception& error) {
      window.abort(MicroStatus::lost, error.what());
      throw;
    }
  }

  void quarantine(const std::vector<NonFiniteMicroBatch>& non_finite, ExactRun& result) {
    std::vector<ExactMicroBatch> others;
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

ExactWindow::ExactWindow(models::Trainable& model, accum::Window& window, Fetch fetch,
                         std::uint64_t seed, ExactOptions options)
    : impl_(std::make_unique<Impl>(Impl{model,
                                        window,
                                        std::move(fetch),
                                        seed,
                                        options,
                                        ActivationStore(options.cut_folder),
                                        {}})) {
  models::check_batch_norms(model, models::BatchNormPolicy::exact);
}

ExactWindow::~ExactWindow() = default;

ExactRun ExactWindow::run(std::int64_t index, std::span<const batch::Range> ranges) {
  ExactRun result;
  impl_->load(index, ranges, result);
  impl_->audit = false;
  while (!impl_->micro_batches.empty() || impl_->options.all_reduce) {
    ExactPass attempt = impl_->pass();
    ExactPass::Outcome outcome = attempt.forward();
    if (outcome == ExactPass::Outcome::done) outcome = impl_->backward(attempt);
    switch (outcome) {
      case ExactPass::Outcome::interrupted:
        impl_->window.discard();
        result.interrupted = true;
        return result;
      case ExactPass::Outcome::non_finite:
        impl_->audit = impl_->audit || attempt.non_finite().empty();
        impl_->quarantine(attempt.non_finite(), result);
        break;
      case ExactPass::Outcome::done:
        result.loss_sum = attempt.loss_sum();
        result.weight = attempt.weight();
        result.heads = attempt.heads();
        return result;
    }
  }
  return result;
}

Loss ExactWindow::replay() {
  ExactPass again = impl_->pass();
  if (again.forward() == ExactPass::Outcome::done && again.backward() == ExactPass::Outcome::done)
    return {at::scalar_tensor(again.loss_sum(), at::kDouble), again.weight()};
  throw runtime_error("replay an exact window", "what it was the first time",
                      "something not finite",
                      "a model whose passes depend on the samples, the seed and the window alone");
}

}  // namespace accrue::train
