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

/// A trained model and what it is to be evaluated on.
struct EvaluationTask {
  /// A run folder (its newest checkpoint), a checkpoint in one, or a Hugging Face folder.
  std::string model;
  std::vector<std::string> files;           ///< patterns, as data.val has them
  std::optional<data::Format> format = {};  ///< none: by the files' names
  /// Of a sample, in tokens; none: the model's, or all tokens of a text that has fewer.
  std::optional<std::int64_t> context = {};
  ShowProgress show = {};
};

struct FileEvaluation {
  Evaluation evaluation;
  std::int64_t samples = 0;
  std::vector<std::string> remarks;

  /// exp(loss): the size of a vocabulary from which tokens would be guessed as well.
  double perplexity() const;
};

/// The mean loss of a language model over the tokens of the files that count, as an evaluation
/// during training gives it. Text becomes tokens by the model's own tokenizer. Throws a usage Error
/// for images, and where model and files do not go together.
FileEvaluation evaluate_files(const EvaluationTask& task);

}  // namespace accrue::train
