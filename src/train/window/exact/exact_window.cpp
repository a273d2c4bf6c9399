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
  std::vector<ExactMicroBatch> parts;  ///< of the last run, without empty and quarantined ones
  bool audit = false;

  void load(std::int64_t index, std::span<const batch::Range> ranges, ExactRun& result) {
    parts.clear();
    for (const batch::Range& range : ranges) {
      ExactMicroBatch part;
      part.micro = fetch(range);
      part.ref = {.index = result.micro_batches++, .sample_ids = part.micro.sample_ids};
      std::ranges::move(std::exchange(part.micro.left_out, {}),
                        std::back_inserter(result.left_out));
      if (part.micro.is_empty()) continue;
      part.context = batch::training_context(part.micro, seed, index);
      part.inputs = store.keep(part.micro.inputs);
      part.micro.inputs.reset();
      result.tokens += part.micro.tokens;
      parts.push_back(std::move(part));
    }
  }

  ExactPass pass() {
    return {model, *window.buffer(), window.loss_scale(), options, parts, store, audit};
  }

  MicroRef whole_window() const {
    MicroRef ref;
    for (const ExactMicroBatch& part : parts)
      ref.sample_ids.insert(ref.sample_ids.end(), part.ref.sample_ids.begin(),
                            part.ref.sample_ids.end());
    return ref;
  }

  /// In one transaction of the window.
  ExactPass::Outcome backward(ExactPass& attempt) {
    window.begin(whole_window());
    const ExactPass::Outcome outcome = run_backward(attempt);
    if (outcome == ExactPass::Outcome::bad)
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

  void quarantine(const std::vector<BadPart>& bad, ExactRun& result) {
    std::vector<ExactMicroBatch> good;
    std::size_t next = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (next == bad.size() || bad[next].part != i) {
        good.push_back(std::move(parts[i]));
        continue;
      }
      window.begin(parts[i].ref);
      window.abort(MicroStatus::quarantined, bad[next].reason);
      result.quarantined.push_back(parts[i].ref.index);
      if (options.on_quarantine) options.on_quarantine(parts[i].ref, bad[next].reason);
      while (next < bad.size() && bad[next].part == i) ++next;
    }
    parts = std::move(good);
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
  while (!impl_->parts.empty() || impl_->options.all_reduce) {
    ExactPass attempt = impl_->pass();
    ExactPass::Outcome outcome = attempt.forward();
    if (outcome == ExactPass::Outcome::done) outcome = impl_->backward(attempt);
    switch (outcome) {
      case ExactPass::Outcome::interrupted:
        impl_->window.discard();
        result.interrupted = true;
        return result;
      case ExactPass::Outcome::bad:
        impl_->audit = impl_->audit || attempt.bad().empty();
        impl_->quarantine(attempt.bad(), result);
        break;
      case ExactPass::Outcome::done:
        result.loss_sum = attempt.loss_sum();
        result.weight = attempt.weight();
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
