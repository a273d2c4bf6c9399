#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/tokenizer.h"
#include "accrue/models/compute.h"
#include "accrue/models/language_model.h"
#include "data/chat/format/chat_format.h"
#include "models/generation/logit_rules.h"

namespace accrue::cli {

/// A language model that reads and writes text.
struct TextModel {
  std::unique_ptr<models::Model> owner;
  models::LanguageModel* model = nullptr;            ///< the model in `owner`
  std::shared_ptr<const data::Tokenizer> tokenizer;  ///< null: tokens are bytes
  std::vector<std::int64_t> end_tokens;              ///< a text ends before any of them
  models::LogitRules rules = {};                     ///< of its generation_config.json
  /// The tokenizer's chat templates, if they were read with the model: of a run.
  std::shared_ptr<const data::ChatFormat> chat = {};

  /// The tokens of a text that the model has to continue.
  std::vector<std::int64_t> encode(const std::string& text) const;
};

struct TextModelOrigin {
  std::string from;                             ///< a run folder or a Hugging Face folder
  std::optional<std::int64_t> step = {};        ///< of a run; none: its newest checkpoint
  std::optional<models::Compute> compute = {};  ///< none: the run's own; for a folder fp32
};

/// Loads the model with the tokenizer of its text, and uses the threads that the machine allows.
/// Prints on stderr which keys of its generation_config.json are not applied. Throws a usage Error
/// if there is no language model, or its tokenizer is not known.
TextModel load_text_model(const TextModelOrigin& origin);

}  // namespace accrue::cli
