#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/long_operation.h"
#include "accrue/core/observer.h"
#include "accrue/data/source.h"

namespace accrue::train {

/// A trained model and the files on which to evaluate it.
struct EvaluationTask {
  /// A run folder (its newest checkpoint), a checkpoint in one, or a Hugging Face folder.
  std::string model;
  std::vector<std::string> files;           ///< patterns, as in data.val
  std::optional<data::Format> format = {};  ///< none: by the files' names
  /// Of a sample, in tokens; none: the model's, or all tokens of a text if it has fewer.
  std::optional<std::int64_t> context = {};
  ShowProgress show = {};
};

struct FileEvaluation {
  Evaluation evaluation;
  std::int64_t samples = 0;
  std::vector<std::string> remarks;

  /// exp(loss): the size of a vocabulary from which guessing would do as well.
  double perplexity() const;
};

/// The mean loss of a language model over the counted tokens of the files, as an evaluation during
/// training computes it. The model's own tokenizer tokenizes text. Throws a usage Error for images,
/// and if model and files do not fit.
FileEvaluation evaluate_files(const EvaluationTask& task);

}  // namespace accrue::train
