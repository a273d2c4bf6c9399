#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/observer.h"
#include "accrue/data/source.h"

namespace accrue::train {

/// A trained model and what it is to be evaluated on.
struct EvaluationTask {
  /// A run folder (its newest checkpoint), a checkpoint in one, or a Hugging Face folder.
  std::string model;
  std::vector<std::string> files;  ///< patterns, as data.val has them
  data::TellProgress tell_progress = {};
};

struct FileEvaluation {
  Evaluation evaluation;
  std::int64_t samples = 0;
  bool is_of_tokens = false;  ///< and not of images
  std::vector<std::string> remarks;

  /// exp(loss): of a language model, the size of a vocabulary that is guessed from as well.
  double perplexity() const;
};

/// The mean loss over all samples of the files, as an evaluation during training gives it: of a
/// language model over tokens, of a model of images over images. Text becomes tokens by the model's
/// own tokenizer, and samples have its context. Throws a usage Error where model and files do not
/// go together.
FileEvaluation evaluate_files(const EvaluationTask& task);

}  // namespace accrue::train
