#include "train/run/evaluator.h"

#include <ATen/record_function.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "accrue/memory/offload.h"
#include "core/words.h"
#include "memory/out_of_memory.h"
#include "train/run/evaluation.h"

namespace accrue::train {
namespace {

/// An announcement (Ranks::announce) above the number of any window's close (SharedMiddles). The
/// run ends with it.
constexpr std::int64_t all_stop = std::numeric_limits<std::int64_t>::max();

}  // namespace

Evaluator::Evaluator(const RunContext& run, Progress& progress, const memory::Recovery& recovery,
                     const Parallelism& parallelism, distributed::ParameterShards* shards,
                     Checkpointer& checkpointer, RunLog& log, RunControl& control,
                     const BatchControl& batch)
    : run_(run),
      progress_(progress),
      recovery_(recovery),
      parallelism_(parallelism),
      shards_(shards),
      checkpointer_(checkpointer),
      log_(log),
      control_(control) {
  if (const auto& every = run.work.config.run.eval_every)
    cadence_ = batch.cadence(*every, "run.eval_every");
}

/// A model that is in a file or on other ranks is brought in once for as many samples as a rank has
/// in a window. In layered order the plan has room for their activations at a cut.
std::int64_t Evaluator::samples_together() const {
  const bool is_elsewhere = shards_ != nullptr || memory::is_offloading();
  if (!is_elsewhere || !is_layered(run_.work.config, *run_.work.model)) return 0;
  return run_.plan.batch_samples / run_.ranks.world();
}

/// One rank that is asked to stop asks the others: it would otherwise wait for the rest of their
/// evaluation, which may take longer than dist.timeout.
bool Evaluator::is_to_stop() const {
  const bool asked = control_.asked_to_stop();
  if (!run_.ranks.are_many()) return asked;
  if (asked) run_.ranks.announce(all_stop);
  return asked || run_.ranks.announced() == all_stop;
}

/// Evaluates in micro-batches as small as memory needs, and reports that in one line.
std::optional<Evaluation> Evaluator::evaluate() {
  RECORD_USER_SCOPE("evaluation");
  EvaluationOptions options{
      .micro_batch = recovery_.state().micro_batch,
      .samples_together = samples_together(),
      .cut_folder = run_.plan.cuts_in_file ? run_.directory.root() : std::filesystem::path(),
      .cancelled =
          [this] {
            control_.wait_out();
            return is_to_stop();
          },
      .ranks = &run_.ranks,
      .shards = shards_};
  if (run_.work.config.run.eval_batches)
    options.max_samples = *run_.work.config.run.eval_batches * run_.plan.batch_samples;
  std::string trouble;
  while (true) {
    try {
      auto evaluation = evaluate_source(*run_.work.model, *run_.work.data.val, options);
      if (!trouble.empty())
        log_.event_of_this_rank(
            "out_of_memory", trouble + ": it was run by " + counted(options.micro_batch, "sample"));
      return evaluation;
    } catch (const std::exception& error) {
      // Ranks that bring segments together cannot begin again alone.
      const bool may_begin_again = options.micro_batch > 1 && shards_ == nullptr;
      if (!may_begin_again || !memory::is_out_of_memory(error)) throw;
      if (trouble.empty())
        trouble = "the evaluation, by " + counted(options.micro_batch, "sample") +
                  ", ran out of memory (" + memory::why_out_of_memory(error) + ")";
      options.micro_batch = (options.micro_batch + 1) / 2;
    }
  }
}

bool Evaluator::evaluate_if_due(bool last) {
  if (!run_.work.data.val) return true;
  const std::int64_t step = progress_.state.step;
  const bool due = last || (cadence_ && cadence_->due(step, parallelism_.step_before(step)));
  if (!due || progress_.state.evaluated_step == step) return true;
  std::optional<Evaluation> evaluation = evaluate();
  if (!evaluation) return false;
  evaluation->step = step;
  if (cadence_) cadence_->done();
  take(*evaluation);
  return true;
}

/// Takes an evaluation; a loss that is not a number is not reported, and never the best.
void Evaluator::take(const Evaluation& evaluation) {
  TrainState& state = progress_.state;
  if (!evaluation.unreadable.empty())
    log_.event_of_this_rank("quarantine",
                            "left out of the evaluation: " + describe_unreadable(evaluation));
  state.evaluated_step = state.step;
  state.eval_loss.reset();
  if (!std::isfinite(evaluation.loss)) {
    log_.event_of_last_step(
        "evaluation", "the loss of the evaluation after step " + std::to_string(state.step) +
                          " is " + (std::isnan(evaluation.loss) ? "not a number" : "infinite"));
    return;
  }
  state.eval_loss = evaluation.loss;
  log_.evaluation(evaluation);
  note_best(evaluation.loss);
}

void Evaluator::note_best(double eval_loss) {
  TrainState& state = progress_.state;
  const bool keeps_best = run_.work.config.run.keep_best;
  if (!keeps_best || (state.best_eval && *state.best_eval <= eval_loss)) return;
  state.best_eval = eval_loss;
  state.best_step = state.step;
  checkpointer_.write();
}

}  // namespace accrue::train
