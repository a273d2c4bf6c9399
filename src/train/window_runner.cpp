#include "window_runner.h"

#include "accrue/core/clock.h"
#include "forward_backward.h"

namespace accrue::train {

WindowRunner::WindowRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
                           std::uint64_t seed, Hooks hooks)
    : model_(model), window_(window), loader_(loader), seed_(seed), hooks_(std::move(hooks)) {
  window_.set_replay([this](const MicroRef& ref) { return replay(ref); });
}

WindowRunner::~WindowRunner() { window_.set_replay({}); }

WindowRun WindowRunner::run(std::int64_t index, batch::Range range, std::int64_t micro) {
  const Stopwatch watch;
  const std::vector<batch::Range> parts = batch::split(range, micro);
  WindowRun result;
  current_window_ = index;
  loader_.prefetch(parts);
  window_.open(index);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (hooks_.interrupted && hooks_.interrupted()) {
      window_.discard();
      loader_.cancel();
      result.interrupted = true;
      return result;
    }
    const batch::MicroBatch data = loader_.next();
    run_micro_batch(index, {.index = static_cast<std::int64_t>(i), .sample_ids = data.sample_ids},
                    data, result);
    result.tokens += data.tokens;
    if (hooks_.on_micro_batch)
      hooks_.on_micro_batch(static_cast<std::int64_t>(i) + 1,
                            static_cast<std::int64_t>(parts.size()));
  }
  const LedgerView ledger = window_.ledger();
  result.loss_sum = ledger.committed_loss_sum();
  result.weight = ledger.committed_weight();
  result.micro_batches = static_cast<std::int64_t>(parts.size());
  result.gradient = window_.close();
  result.seconds = watch.seconds();
  return result;
}

void WindowRunner::run_micro_batch(std::int64_t index, MicroRef ref, const batch::MicroBatch& micro,
                                   WindowRun& result) {
  window_.begin(ref);
  const PassResult pass = forward_backward(model_, micro, context(index, ref.sample_ids));
  if (pass.finite) {
    window_.commit(pass.loss_sum, pass.weight);
    return;
  }
  ++result.quarantined;
  window_.abort(MicroStatus::quarantined, "its loss is not finite");
  if (hooks_.on_quarantine) hooks_.on_quarantine(ref, "its loss is not finite");
}

Loss WindowRunner::replay(const MicroRef& ref) {
  const batch::Range range{ref.sample_ids.front(), ref.sample_ids.back() + 1};
  const PassResult pass =
      forward_backward(model_, loader_.fetch(range), context(current_window_, ref.sample_ids));
  return {.sum = at::scalar_tensor(pass.loss_sum, at::kDouble), .weight = pass.weight};
}

ForwardContext WindowRunner::context(std::int64_t index,
                                     const std::vector<std::int64_t>& sample_ids) const {
  return {.training = true, .seed = seed_, .window = index, .sample_ids = sample_ids};
}

}  // namespace accrue::train
