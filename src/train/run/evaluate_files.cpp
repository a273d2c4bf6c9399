#include "train/run/evaluate_files.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "accrue/core/error.h"
#include "data/text/tokens/too_few_tokens.h"
#include "train/config/origin_kind.h"
#include "train/plan/setup.h"
#include "train/run/evaluation.h"
#include "train/workload/model_origin.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

/// The run's config, or that of a folder's model, with the files in place of its data.
Config config_for(const EvaluationTask& task) {
  Config config;
  if (const auto origin = run_origin(task.model))
    config = origin->run.config();
  else
    config.model.kind = kind_of_origin(task.model).value_or(config.model.kind);
  config.model.from = task.model;
  config.model.lora = {};  // a run's adapters are in its checkpoint
  config.model.freeze.clear();
  if (task.context) config.model.context = task.context;
  config.data = {.train = task.files, .format = task.format};
  // The loss is that of the tokens, whatever the model was trained for.
  config.loss.kind =
      config.model.kind == ModelKind::bert ? models::LossKind::mlm : models::LossKind::lm;
  config.batch = {.samples = 1};
  config.run.out.clear();  // nothing is written, not even next to a run
  config.memory.budget = "none";
  config.memory.offload.clear();
  config.memory.offload_budget = "none";
  return config;
}

/// As many as make a pass of some thousands of tokens: evaluation keeps no activations.
std::int64_t micro_batch_for(const data::Source& source) {
  constexpr std::int64_t tokens_at_once = 4096;
  std::int64_t longest = source.uniform_tokens().value_or(1);
  if (!source.uniform_tokens())
    for (std::int64_t i = 0; i < source.size(); ++i) longest = std::max(longest, source.tokens(i));
  return std::max<std::int64_t>(1, tokens_at_once / longest);
}

/// The files before any weight of the model is read.
struct OpenedFiles {
  Config config;  ///< with the context that their samples have
  std::shared_ptr<const data::Source> source;
  std::string remark;  ///< what was decided about that context; empty: nothing
};

/// A text that is shorter than the model's context becomes one sample; a stated context is
/// kept.
OpenedFiles open_files_for(const EvaluationTask& task) {
  OpenedFiles opened{.config = config_for(task), .source = nullptr, .remark = ""};
  use_resources(opened.config);
  const auto open = [&] {
    Config shaped = opened.config;
    opened.source = open_data(shaped, task.show).train;
  };
  try {
    open();
  } catch (const data::TooFewTokens& error) {
    const std::int64_t longest = error.longest_context();
    if (task.context || longest < 1)
      throw usage_error("eval --data", error.expected(), error.received(),
                        longest < 1 ? "more text; --context says how much of it is a sample"
                                    : "--context " + std::to_string(longest) + ", or more text");
    opened.config.model.context = longest;
    opened.remark = "the files have too few tokens for the model's context of " +
                    std::to_string(error.context()) + ": evaluated as with --context " +
                    std::to_string(longest) + ", all of them at once";
    open();
  }
  return opened;
}

}  // namespace

double FileEvaluation::perplexity() const { return std::exp(evaluation.loss); }

FileEvaluation evaluate_files(const EvaluationTask& task) {
  OpenedFiles opened = open_files_for(task);
  const Workload work =
      open_workload(std::move(opened.config), task.show, std::move(opened.source));
  const data::Source& source = *work.data.train;
  if (source.image_shape())
    throw usage_error("eval", "text, tokens or JSON lines", "images",
                      "accrue predict RUN_DIR IMAGES, which names their classes");
  std::optional<Evaluation> evaluation = during(task.show, "evaluating", [&] {
    source.check_contents();
    return evaluate_source(*work.model, source, {.micro_batch = micro_batch_for(source)});
  });
  FileEvaluation result{
      .evaluation = std::move(*evaluation), .samples = source.size(), .remarks = work.remarks};
  if (!opened.remark.empty()) result.remarks.push_back(opened.remark);
  for (std::string& remark : source.remarks()) result.remarks.push_back(std::move(remark));
  return result;
}

}  // namespace accrue::train
