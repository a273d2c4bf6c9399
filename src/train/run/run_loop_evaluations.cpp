#include <ATen/record_function.h>

#include <cmath>

#include "core/words.h"
#include "memory/out_of_memory.h"
#include "train/run/evaluation.h"
#include "train/run/run_loop.h"

namespace accrue::train {

/// In micro-batches as small as it takes; one line tells of it.
std::optional<Evaluation> RunLoop::evaluate() {
  RECORD_USER_SCOPE("evaluation");
  EvaluationOptions options{.micro_batch = recovery_.state().micro_batch,
                            .cancelled =
                                [this] {
                                  follow_budget();
                                  return !parts_.ranks.are_many() && parts_.signals.interrupted();
                                },
                            .ranks = &parts_.ranks};
  if (config_.run.eval_batches)
    options.max_samples = *config_.run.eval_batches * parts_.plan.batch_samples;
  std::string trouble;
  while (true) {
    try {
      auto evaluation = evaluate_source(model_, *parts_.work.data.val, options);
      if (!trouble.empty())
        report_event("out_of_memory",
                     trouble + ": it was run by " + counted(options.micro_batch, "sample"));
      return evaluation;
    } catch (const std::exception& error) {
      if (options.micro_batch == 1 || !memory::is_out_of_memory(error)) throw;
      if (trouble.empty())
        trouble = "the evaluation, by " + counted(options.micro_batch, "sample") +
                  ", ran out of memory (" + memory::why_out_of_memory(error) + ")";
      options.micro_batch = (options.micro_batch + 1) / 2;
    }
  }
}

bool RunLoop::evaluate_if_due(bool last) {
  if (!parts_.work.data.val) return true;
  const bool due = last || (eval_cadence_ && eval_cadence_->due(state_.step, asked_before()));
  if (!due || state_.evaluated_step == state_.step) return true;
  std::optional<Evaluation> evaluation = evaluate();
  if (!evaluation) return false;
  evaluation->step = state_.step;
  if (eval_cadence_) eval_cadence_->done();
  take_evaluation(*evaluation);
  return true;
}

/// A loss that is no number is none to report, and never the best.
void RunLoop::take_evaluation(const Evaluation& evaluation) {
  if (!evaluation.left_out.empty())
    report_event("quarantine", "left out of the evaluation: " + left_out_of(evaluation));
  state_.evaluated_step = state_.step;
  state_.eval_loss.reset();
  if (!std::isfinite(evaluation.loss)) {
    const std::string reason = "the loss of the evaluation after step " +
                               std::to_string(state_.step) + " is " +
                               (std::isnan(evaluation.loss) ? "not a number" : "infinite");
    tell_event_after("evaluation", reason);
    return;
  }
  state_.eval_loss = evaluation.loss;
  tell([&](Observer& o) { o.on_evaluation(evaluation); });
  note_best(evaluation.loss);
}

void RunLoop::note_best(double eval_loss) {
  if (!config_.run.keep_best || (state_.best_eval && *state_.best_eval <= eval_loss)) return;
  state_.best_eval = eval_loss;
  state_.best_step = state_.step;
  write();
}

}  // namespace accrue::train
